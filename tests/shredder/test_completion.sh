#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Completion of Shredder's commands by bash and zsh, behind options that stand before the command.
# Of completions/shredder.bash, completions/_shredder.
top=$(realpath "$(dirname "$0")/../..")
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
cat >complete.bash <<'BASH'
. "$1"
shift
compopt() { :; }
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_shredder
echo "${COMPREPLY[*]}"
BASH
completes() { # completes WANTED WORD...: what bash offers; it has cut the words at "=" and ":"
	local wanted=$1
	shift
	equals "bash: $*" "$wanted" "$(bash complete.bash "$top/completions/shredder.bash" shredder "$@")"
}
touch letters
completes backup ba
completes "--help" --he
completes "--version" --ver
completes "--retry-lock" --retry
completes backup --repo /x ba
completes backup --repo = /x ba
completes backup -r rest : https : //host:8000/x ba
completes backup -jr /x -q --password-command 'pass show' ba
completes backup -r/x --json ba
completes "--retry-lock" -r /x --ret
completes "" --repo /x --vers
completes letters --repo le
completes letters -q -p le
completes "" --retry-lock ba
completes "--exclude --exclude-file --exclude-if-present --exclude-caches --exclude-larger-than" -r /x backup --exclude
completes "--retry-lock" backup -r /x --retry
completes "packs" -q list pa
completes "if-changed if-newer" -r /x restore --overwrite if
completes "" -r /x backup -e au
completes letters -r /x backup le
completes backup -r /x -- ba

if command -v zsh >/dev/null; then
	cat >complete.zsh <<'ZSH'
# What the functions of zsh's completion are asked for: they work in an editor only.
_describe() { echo commands }
_arguments() { echo "arguments $CURRENT $words" }
_shredder_top=$1
shift
words=(shredder "$@")
CURRENT=$#words
. "$_shredder_top/completions/_shredder"
ZSH
	asks() { # asks WANTED WORD...: which function zsh calls, and for which words
		local wanted=$1
		shift
		equals "zsh: $*" "$wanted" "$(zsh -f complete.zsh "$top" "$@")"
	}
	asks commands ba
	asks "arguments 2 shredder --re" --re
	asks commands --repo /x ba
	asks commands --repo=/x ba
	asks commands -jr /x -q --password-command "pass show" ba
	asks "arguments 3 shredder --repo le" --repo le
	asks "arguments 4 shredder -r /x --ret" -r /x --ret
	asks "arguments 2 backup --ex" backup --ex
	asks "arguments 2 backup --ex" -r /x backup --ex
	asks "arguments 3 restore latest /x" --json -r/x restore latest /x
else
	echo "# skipped: zsh is not installed"
fi
finish
