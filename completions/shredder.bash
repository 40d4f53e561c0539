# SPDX-License-Identifier: Apache-2.0
# bash completion for shredder

_shredder_words() {
	mapfile -t COMPREPLY < <(compgen -W "$2" -- "$1")
}

_shredder() {
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
	local shared="--algorithm --bits --min --max --polynomial --marker --normal --normalization --delimiter --record
		--engine --gpus --threads --buffers --buffer-size --no-direct --help"
	COMPREPLY=()
	if [[ $COMP_CWORD -eq 1 ]]; then
		_shredder_words "$current" "chunk dedup-ratio bench help version --help --version"
		return
	fi
	case $previous in
	-a | --algorithm) _shredder_words "$current" "rabin gear" ;;
	-e | --engine) _shredder_words "$current" "auto cpu cuda portable avx2 avx512" ;;
	--min | --max | --normalization) _shredder_words "$current" none ;;
	-b | --bits | --polynomial | --marker | --normal | -d | --delimiter | --record | --gpus | -t | --threads | --buffers | \
		--buffer-size | --size | --rounds) ;;
	*)
		case $command:$current in
		chunk:-*) _shredder_words "$current" "$shared --json --null --no-digest --stats" ;;
		dedup-ratio:-*) _shredder_words "$current" "$shared --json --plot --stats" ;;
		bench:-*) _shredder_words "$current" "$shared --json --size --rounds" ;;
		help:*) _shredder_words "$current" "chunk dedup-ratio bench" ;;
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
