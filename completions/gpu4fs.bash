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

# Options that are a list behind -o: the last of them is completed. Of mount, and of serve.
_gpu4fs_list() {
	local last=${1##*,} head=
	[[ $1 == *,* ]] && head=${1%,*},
	compopt -o nospace
	mapfile -t COMPREPLY < <(compgen -P "$head" -W "$2" -- "$last")
}

_gpu4fs_mount_options() {
	_gpu4fs_list "$1" "ro rw remount cache= tier= dedup_memory= dedup_verify commit= engine= sms= gpu_queues= host_memory= device= degraded discard nodiscard relatime noatime strictatime sync dirsync nosuid nodev
		noexec allow_other writeback nowriteback threads= readdirplus=yes readdirplus=auto readdirplus=no mirror=yes mirror=auto mirror=no attr_timeout=
		entry_timeout= negative_timeout= socket="
}

_gpu4fs_serve_options() {
	_gpu4fs_list "$1" "ro degraded discard cache= tier= dedup_memory= dedup_verify commit= engine= sms= gpu_queues= host_memory= clients= files= data="
}

_gpu4fs() {
	local commands="mkfs mount umount serve run fsck info df attr cp rm du find import export dedup restripe scrub status disk resize tune nvme map dump trace bench help version"
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command first=1 word place=0 i
	COMPREPLY=()
	case ${COMP_WORDS[0]##*/} in
	mkfs.gpu4fs) command=mkfs ;;
	fsck.gpu4fs) command=fsck ;;
	mount.gpu4fs) command=mount ;;
	*)
		if [[ $COMP_CWORD -eq 1 ]]; then
			_gpu4fs_words "$current" "$commands --help --version"
			return
		fi
		command=${COMP_WORDS[1]}
		first=2
		;;
	esac
	# How many words that are no options or their values stand before the current one; for dump and attr alone.
	for ((i = first; i < COMP_CWORD; i++)); do
		[[ ${COMP_WORDS[i]} == -* || ${COMP_WORDS[i - 1]} == --image ]] || place=$((place + 1))
	done
	word=${COMP_WORDS[first]}

	case $command:$current in
	mkfs:-*)
		_gpu4fs_words "$current" "-L --label -U --uuid -J --journal-size -s --size --preallocate --raid --stripe --copies --unassigned --checksum --dedup --dedup-quota --owner --mode -f --force -q --quiet
			--json --help --version"
		;;
	mount:-*) _gpu4fs_words "$current" "-o -r -f -d --help --version" ;;
	umount:-*) _gpu4fs_words "$current" "-l --lazy -f --force --help --version" ;;
	serve:-*) _gpu4fs_words "$current" "-s --socket -m --mode -o --help --version" ;;
	run:-*) _gpu4fs_words "$current" "-m --map -o --trace --help --version" ;;
	fsck:-*)
		_gpu4fs_words "$current" "-n -p -a -y --repair --dry-run -f --force -v --verbose -j --jobs --data --gpu --degraded --find-superblock
			--json --help --version"
		;;
	info:-*) _gpu4fs_words "$current" "--json --udev --help --version" ;;
	attr:-*) _gpu4fs_words "$current" "--json --image --help --version" ;;
	cp:-*)
		_gpu4fs_words "$current" "-a --archive -d -j --jobs -p --preserve --no-preserve -r -R --recursive --reflink -v --verbose --image --socket --help --version"
		;;
	du:-*) _gpu4fs_words "$current" "-h -j --jobs --json --image --socket --help --version" ;;
	find:-*)
		_gpu4fs_words "$current" "-n --name -i --iname -t --type --size --changed-within --changed-before --max-depth -j --jobs -z --null
			--json --image --socket --help --version"
		;;
	import:-*) _gpu4fs_words "$current" "-j --jobs -v --verbose --image --socket --help --version" ;;
	export:-*) _gpu4fs_words "$current" "-j --jobs -v --verbose --image --socket --help --version" ;;
	rm:-*)
		_gpu4fs_words "$current" "-r -R --recursive -f --force -j --jobs -v --verbose --image --socket --help --version"
		;;
	restripe:-*) _gpu4fs_words "$current" "-n --dry-run --raid --image --socket --json --help --version" ;;
	dedup:-*)
		_gpu4fs_words "$current" "--memory --rate --idle --compare --chunks --older-than --json --image --socket --mount --help --version"
		;;
	map:-*) _gpu4fs_words "$current" "--json --help --version" ;;
	df:-*) _gpu4fs_words "$current" "-b --bytes -h --human-readable --json --help --version" ;;
	bench:-*)
		_gpu4fs_words "$current" "-s --size --dirs --files --passes --cached-reads --random-ops --fsyncs --cache --remount
			--server --json --help --version"
		;;
	tune:-*) _gpu4fs_words "$current" "-L --label -U --uuid --checksum --dedup --dedup-quota --degraded --help --version" ;;
	nvme:-*) _gpu4fs_words "$current" "-f --force --destructive -j --json --help --version" ;;
	trace:-*)
		_gpu4fs_words "$current" "-d --directory --device -o --output --text --policy --size --ways --json --plot --help --version"
		;;
	scrub:-*) _gpu4fs_words "$current" "--add-sums --only --rate --now --wait --degraded --json --help --version" ;;
	status:-*) _gpu4fs_words "$current" "--layout --json --help --version" ;;
	disk:-*) _gpu4fs_words "$current" "-f --force --rate --now --wait --raid --size --spare --help --version" ;;
	resize:-*) _gpu4fs_words "$current" "--help --version" ;;
	dump:-*) _gpu4fs_words "$current" "--dir --ddt --dot --raw --json --help --version" ;;
	help:*) _gpu4fs_words "$current" "${commands% help version}" ;;
	version:*) ;;
	mkfs:*)
		case $previous in
		-L | --label | -J | --journal-size | -s | --size | --owner | --mode) ;;
		-U | --uuid) [[ -r /proc/sys/kernel/random/uuid ]] && COMPREPLY=("$(</proc/sys/kernel/random/uuid)") ;;
		--raid) _gpu4fs_words "$current" "none 0 1 5 6 triple quadruple" ;;
		--checksum) _gpu4fs_words "$current" "none blake3 xxh3 crc32c" ;;
		*) _gpu4fs_files "$current" ;;
		esac
		;;
	mount:* | serve:*)
		# "=" is a word of its own to bash: go back to where the list began.
		for ((i = COMP_CWORD; i > first; i--)); do
			[[ ${COMP_WORDS[i]} == = || ${COMP_WORDS[i - 1]} == = ]] || break
		done
		if [[ $command:$previous == serve:-m || $previous == --mode ]]; then
			:
		elif [[ ${COMP_WORDS[i - 1]} != -o ]]; then
			_gpu4fs_files "$current"
		elif [[ $i -eq $COMP_CWORD || $current == *,* ]]; then
			"_gpu4fs_${command}_options" "$current"
		fi
		;;
	fsck:*)
		case $previous in
		-j | --jobs) ;;
		*) _gpu4fs_files "$current" ;;
		esac
		;;
	trace:*)
		case $previous in
		--size) ;;
		--policy) _gpu4fs_words "$current" "fifo clock second-chance lru sieve s3-fifo s3-fifo-1 arc clock-pro srrip drrip min" ;;
		--ways) _gpu4fs_words "$current" "8 16 full" ;;
		*)
			if [[ $place -eq 0 ]]; then
				_gpu4fs_words "$current" "record replay show"
			else
				_gpu4fs_files "$current"
			fi
			;;
		esac
		;;
	nvme:*) [[ $place -gt 0 ]] || _gpu4fs_words "$current" "list bind unbind id log test" ;;
	tune:*)
		case $previous in
		-L | --label) ;;
		-U | --uuid) _gpu4fs_words "$current" random ;;
		--checksum) _gpu4fs_words "$current" "none blake3 xxh3 crc32c" ;;
		--dedup) _gpu4fs_words "$current" "on off" ;;
		--dedup-quota) _gpu4fs_words "$current" none ;;
		*) _gpu4fs_files "$current" ;;
		esac
		;;
	disk:*)
		case $place:$previous in
		*:--rate | *:--size) ;;
		*:--raid) _gpu4fs_words "$current" "none 0 1 5 6 triple quadruple" ;;
		0:*) _gpu4fs_words "$current" "rebuild replace add remove rebalance online offline pause resume cancel assign" ;;
		*)
			_gpu4fs_mounts "$current"
			_gpu4fs_files "$current"
			;;
		esac
		;;
	run:*)
		case $previous in
		-o) _gpu4fs_mount_options "$current" ;;
		*) _gpu4fs_files "$current" ;;
		esac
		;;
	bench:*)
		case $previous in
		-s | --size | --dirs | --files | --passes | --cached-reads | --random-ops | --fsyncs | --cache | --remount) ;;
		*) _gpu4fs_files "$current" ;;
		esac
		;;
	umount:*) _gpu4fs_mounts "$current" ;;
	scrub:*)
		case $previous in
		--rate | --only) ;;
		scrub) _gpu4fs_words "$current" "start pause resume cancel status" ;;
		*)
			_gpu4fs_mounts "$current"
			_gpu4fs_files "$current"
			;;
		esac
		;;
	resize:*)
		[[ $place -gt 0 ]] && return
		_gpu4fs_mounts "$current"
		_gpu4fs_files "$current"
		;;
	df:* | info:* | status:*)
		_gpu4fs_mounts "$current"
		_gpu4fs_files "$current"
		;;
	attr:*)
		if [[ $place -eq 0 ]]; then
			_gpu4fs_words "$current" "get list set"
		elif [[ $word == set && $place -eq 1 && $previous != --image ]]; then
			_gpu4fs_words "$current" "checksum=blake3 checksum=xxh3 checksum=crc32c checksum=none checksum=default dedup=on dedup=off dedup=domain dedup=default raid=none raid=0 raid=1 raid=5 raid=6 raid=triple raid=quadruple raid=default"
		else
			_gpu4fs_files "$current"
		fi
		;;
	cp:*)
		case $previous in
		--image | --socket) _gpu4fs_files "$current" ;;
		--reflink) _gpu4fs_words "${current#=}" "auto always never" ;;
		--preserve | --no-preserve) _gpu4fs_words "${current#=}" "mode ownership timestamps links xattr all policy flags" ;;
		=)
			case ${COMP_WORDS[COMP_CWORD - 2]} in
			--reflink) _gpu4fs_words "$current" "auto always never" ;;
			--preserve | --no-preserve) _gpu4fs_words "$current" "mode ownership timestamps links xattr all policy flags" ;;
			esac
			;;
		esac
		;;
	import:* | export:*)
		case $previous in
		-j | --jobs) ;;
		*) _gpu4fs_files "$current" ;;
		esac
		;;
	rm:* | du:* | find:*)
		case $previous in
		--image | --socket) _gpu4fs_files "$current" ;;
		esac
		;;
	restripe:*)
		case $previous in
		--raid) _gpu4fs_words "$current" "none 0 1 5 6 triple quadruple default" ;;
		--image | --socket) _gpu4fs_files "$current" ;;
		*)
			_gpu4fs_mounts "$current"
			_gpu4fs_files "$current"
			;;
		esac
		;;
	dedup:*)
		case $place:$previous in
		*:--memory | *:--rate | *:--older-than) ;;
		*:--image | *:--socket | *:--mount) _gpu4fs_files "$current" ;;
		0:*) _gpu4fs_words "$current" "run estimate stats prune" ;;
		*)
			_gpu4fs_mounts "$current"
			_gpu4fs_files "$current"
			;;
		esac
		;;
	dump:*)
		case $place:$previous in
		0:*) _gpu4fs_files "$current" ;;
		1:*) _gpu4fs_words "$current" "superblock journal root groups group listed inode dir map xattr block" ;;
		2:superblock) _gpu4fs_words "$current" backup ;;
		esac
		;;
	*) _gpu4fs_files "$current" ;;
	esac
}

complete -F _gpu4fs gpu4fs mkfs.gpu4fs fsck.gpu4fs mount.gpu4fs
