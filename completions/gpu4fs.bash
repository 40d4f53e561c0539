# SPDX-License-Identifier: Apache-2.0
# bash completion for gpu4fs, mkfs.gpu4fs, fsck.gpu4fs and mount.gpu4fs

_gpu4fs_files() {
	compopt -o filenames
	mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$1")
}

_gpu4fs_mounts() {
	compopt -o filenames
	mapfile -t COMPREPLY < <(compgen -W "$(awk '$3 ~ /gpu4fs/ { print $2 }' /proc/mounts)" -- "$1")
}

_gpu4fs_words() {
	mapfile -t COMPREPLY < <(compgen -W "$2" -- "$1")
}

# The options of mount are a list behind -o: the last of them is completed.
_gpu4fs_mount_options() {
	local last=${1##*,} head=
	[[ $1 == *,* ]] && head=${1%,*},
	compopt -o nospace
	mapfile -t COMPREPLY < <(compgen -P "$head" -W "cache= commit= threads= readdirplus= attr_timeout= entry_timeout=
		negative_timeout= ro rw relatime noatime strictatime allow_other sync dirsync writeback nowriteback nodev nosuid
		noexec" -- "$last")
}

_gpu4fs() {
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command
	COMPREPLY=()
	case ${COMP_WORDS[0]##*/} in
	mkfs.gpu4fs) command=mkfs ;;
	fsck.gpu4fs) command=fsck ;;
	mount.gpu4fs) command=mount ;;
	*)
		if [[ $COMP_CWORD -eq 1 ]]; then
			_gpu4fs_words "$current" "mkfs mount umount fsck info df attr dump bench --help --version"
			return
		fi
		command=${COMP_WORDS[1]}
		;;
	esac

	case $command:$current in
	mkfs:-*) _gpu4fs_words "$current" "-L -U -J --label --uuid --journal-size --force --json --help" ;;
	mount:-*) _gpu4fs_words "$current" "-o -f -d --help" ;;
	fsck:-*) _gpu4fs_words "$current" "-n -y -p -f --json --help" ;;
	info:-* | df:-* | attr:-* | dump:-* | bench:-*) _gpu4fs_words "$current" "--json --help" ;;
	umount:-*) _gpu4fs_words "$current" "-l --help" ;;
	mkfs:*)
		case $previous in
		-L | --label | -J | --journal-size) ;;
		-U | --uuid) [[ -r /proc/sys/kernel/random/uuid ]] && COMPREPLY=("$(</proc/sys/kernel/random/uuid)") ;;
		*) _gpu4fs_files "$current" ;;
		esac
		;;
	mount:*)
		if [[ $previous == -o ]]; then
			_gpu4fs_mount_options "$current"
		else
			_gpu4fs_files "$current"
		fi
		;;
	umount:* | df:*) _gpu4fs_mounts "$current" ;;
	dump:*)
		if [[ $COMP_CWORD -eq 3 ]]; then
			_gpu4fs_words "$current" "superblock journal groups alloc inode directory map xattr block"
		else
			_gpu4fs_files "$current"
		fi
		;;
	*) _gpu4fs_files "$current" ;;
	esac
}

complete -F _gpu4fs gpu4fs mkfs.gpu4fs fsck.gpu4fs mount.gpu4fs
