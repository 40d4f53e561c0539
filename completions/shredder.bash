# SPDX-License-Identifier: Apache-2.0
# bash completion for shredder

_shredder_words() {
	mapfile -t COMPREPLY < <(compgen -W "$2" -- "$1")
}

# Sets place to the command's, behind options of the repository: COMP_CWORD when there is none yet, more when the current word is an option's value.
_shredder_place() {
	place=1
	while ((place < COMP_CWORD)); do
		case ${COMP_WORDS[place]} in
		--no-encryption | --quiet | --json | --help | --version) ((place++)) ;;
		--)
			((place++))
			break
			;;
		--* | -[rpk] | -[jq][rpk] | -[jq][jq][rpk]) # with a value, which bash cuts at "=" and ":"
			[[ ${COMP_WORDS[place + 1]} == = ]] && ((place++))
			((place += 2))
			while [[ ${COMP_WORDS[place]} == [=:]* ]]; do ((place += 2)); done
			;;
		-*) ((place++)) ;;
		*) break ;;
		esac
	done
}

_shredder() {
	local place current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=
	local shared="--algorithm --bits --min --max --polynomial --marker --normal --normalization --delimiter --record
		--engine --gpus --threads --buffers --buffer-size --no-direct --help"
	local repository="--repo --identity --site-key --password-file --password-command --key-file --no-encryption --limit-upload --limit-download --retry-lock --json --quiet --help"
	local from="--from-repo --from-password-file --from-password-command --from-key-file --from-no-encryption --from-identity
		--from-site-key"
	local which="--host --tag --path"
	local commands="init backup restore dump ls snapshots mount find diff check forget copy prune parity tag rewrite repair recover cat list stats key serve identity unlock chunk dedup-ratio bench"
	COMPREPLY=()
	_shredder_place
	if ((place == COMP_CWORD)); then
		((place > 1)) || commands+=" help version --help --version"
		[[ $current != -* ]] || commands=$repository
		[[ $current != -* || $place -gt 1 ]] || commands+=" --version"
		_shredder_words "$current" "$commands"
		return
	fi
	((place > COMP_CWORD)) || command=${COMP_WORDS[place]}
	case $previous in
	-a | --algorithm) _shredder_words "$current" "rabin gear" ;;
	-r | --repo | -p | --password-file | -k | --key-file | -T | --target | --exclude-file | --iexclude-file | --include-file | --files-from | --files-from0 | --new-password-file | \
		--new-key-file | --identity | --from-* | -c | --clients)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		;;
	--overwrite) _shredder_words "$current" "always if-changed if-newer never" ;;
	--group-by) _shredder_words "$current" "host paths tags host,paths" ;;
	-e | --exclude) # of a chunker, -e is the engine
		[[ $command == backup || $command == restore || $command == rewrite ]] || _shredder_words "$current" "auto cpu cuda portable avx2 avx512"
		;;
	--engine) _shredder_words "$current" "auto cpu cuda portable avx2 avx512" ;;
	--min | --max | --normalization) _shredder_words "$current" none ;;
	-b | --bits | --polynomial | --marker | --normal | -d | --delimiter | --listen | --port | --site-key | --limit-* | --retry-lock | --time | --new-time | --new-host | --record | --gpus | -t | --threads | --buffers | \
		--buffer-size | --size | --rounds) ;;
	*)
		case $command:$current in
		:*) ;;
		chunk:-*) _shredder_words "$current" "$shared --json --null --no-digest --stats" ;;
		dedup-ratio:-*) _shredder_words "$current" "$shared --json --plot --stats" ;;
		bench:-*) _shredder_words "$current" "$shared --json --size --rounds" ;;
		help:*) _shredder_words "$current" "$commands" ;;
		init:-*) _shredder_words "$current" "$repository $from --copy-chunker-params --format --parity" ;;
		copy:-*) _shredder_words "$current" "$repository $from $which --level --threads --dry-run --no-lock" ;;
		mount:-*) _shredder_words "$current" "$repository $which --allow-other" ;;
		serve:-*) _shredder_words "$current" "--identity --clients --listen --port --json --help" ;;
		identity:-*) _shredder_words "$current" "--json --help" ;;
		unlock:-*) _shredder_words "$current" "$repository --remove-all" ;;
		backup:-*)
			_shredder_words "$current" "$repository --exclude --iexclude --exclude-file --iexclude-file --exclude-if-present --exclude-caches --exclude-larger-than
				--files-from --files-from0 --stdin --stdin-from-command --skip-if-unchanged --with-atime --time
				--one-file-system --tag --host --parent --force --ignore-ctime --ignore-inode --level --threads --engine --gpus --dry-run --verbose"
			;;
		restore:-*)
			_shredder_words "$current" "$repository $which --target --onto --exclude --iexclude --exclude-file --include --iinclude --include-file --overwrite --delete --no-owner --owner-names --verify
				--threads --dry-run --verbose --no-lock"
			;;
		ls:-*) _shredder_words "$current" "$repository $which --long --directory --null" ;;
		parity:-*) _shredder_words "$current" "$repository" ;;
		parity:*) _shredder_words "$current" "0 1 2 3 4" ;;
		tag:-*) _shredder_words "$current" "$repository $which --set --add --remove" ;;
		rewrite:-*)
			_shredder_words "$current" "$repository $which --exclude --iexclude --exclude-file --new-host --new-time --forget --dry-run"
			;;
		repair:-*) _shredder_words "$current" "$repository $which --read-data --threads --forget --dry-run" ;;
		repair:*) _shredder_words "$current" "packs snapshots latest" ;;
		recover:-*) _shredder_words "$current" "$repository --dry-run" ;;
		cat:-*) _shredder_words "$current" "$repository $which" ;;
		cat:*) _shredder_words "$current" "config snapshot tree pack index key lock blob latest" ;;
		list:-*) _shredder_words "$current" "$repository" ;;
		list:*) _shredder_words "$current" "blobs packs index snapshots keys locks" ;;
		snapshots:-*) _shredder_words "$current" "$repository $which --latest" ;;
		find:-*) _shredder_words "$current" "$repository $which --ignore-case" ;;
		dump:-* | diff:-* | stats:-*) _shredder_words "$current" "$repository $which" ;;
		check:-*) _shredder_words "$current" "$repository --read-data --read-data-subset --repair --threads --no-lock" ;;
		forget:-*)
			_shredder_words "$current" "$repository $which --keep-last --keep-hourly --keep-daily --keep-weekly
				--keep-monthly --keep-yearly --keep-within --keep-within-hourly --keep-within-daily --keep-within-weekly
				--keep-within-monthly --keep-within-yearly --keep-tag --group-by --prune --max-unused --max-repack-size --dry-run"
			;;
		prune:-*) _shredder_words "$current" "$repository --max-unused --max-repack-size --dry-run" ;;
		key:-*) _shredder_words "$current" "$repository --new-password-file --new-key-file" ;;
		key:*) _shredder_words "$current" "list add passwd remove" ;;
		restore:* | dump:* | ls:* | snapshots:* | diff:* | stats:* | tag:* | rewrite:* | forget:*) _shredder_words "$current" latest ;;
		check:* | prune:* | recover:* | copy:* | unlock:* | init:*) ;;
		version:*) ;;
		*)
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$current")
			;;
		esac
		;;
	esac
}

complete -F _shredder shredder
