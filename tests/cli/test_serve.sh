#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs serve: starting, refusing and stopping. What clients do is tested in tests/engine.
. "$(dirname "$0")/lib.sh"

exits 2 "without a socket" "$gpu4fs" serve mem:64M
one_sentence "... is refused in one sentence"
exits 2 "without a device" "$gpu4fs" serve --socket s
exits 2 "an option that does not exist" "$gpu4fs" serve --socket s -o sausage mem:64M
says "... is named" sausage
exits 2 "an engine that does not exist" "$gpu4fs" serve --socket s -o engine=steam mem:64M
exits 2 "a tier that is none" "$gpu4fs" serve --socket s -o tier=much mem:64M
exits 2 "a memory that is none" "$gpu4fs" serve --socket s -o dedup_memory=much mem:64M
exits 2 "no multiprocessors" "$gpu4fs" serve --socket s -o sms=0 mem:64M
exits 2 "memory of a drive that is none" "$gpu4fs" serve --socket s -o host_memory=much mem:64M
exits 2 "no queues of a drive" "$gpu4fs" serve --socket s -o gpu_queues=0 mem:64M
exits 1 "queues of a drive without a GPU" "$gpu4fs" serve --socket s -o gpu_queues=4 nothing.img
says "... says what they need" "needs engine=cuda or auto"
exits 1 "a device that does not exist" "$gpu4fs" serve --socket s nothing.img
one_sentence "... is refused in one sentence"

truncate -s 64M serve.img
"$gpu4fs" mkfs -q serve.img
"$gpu4fs" serve --socket serve.socket -o cache=16M,tier=1M,dedup_memory=2M,dedup_verify serve.img >serve.out 2>&1 &
server=$!
for _ in $(seq 6000); do
	[[ -s serve.out ]] && break
	kill -0 "$server" 2>/dev/null || break
	sleep 0.1
done
equals "it says where it serves" "serving serve.img at serve.socket, engine cpu" "$(cat serve.out)"
equals "there is a socket" socket "$([[ -S serve.socket ]] && echo socket)"
exits 0 "a check of what it serves" "$gpu4fs" fsck -n serve.img
says "... says who has it" "in use by process $server (gpu4fs)"
exits 0 "info as well" "$gpu4fs" info serve.img
says "... says who has it" "in use by process $server (gpu4fs)"
exits 8 "a repair of what it serves" "$gpu4fs" fsck -y serve.img
exits 1 "a second one of the same device" "$gpu4fs" serve --socket other.socket serve.img
exits 1 "a second one at the same socket" "$gpu4fs" serve --socket serve.socket mem:64M
kill "$server"
wait "$server"
equals "it ends well when it is asked to" 0 $?
# what is asked for and has no effect: the line is there before it serves
for asked in "tier=4096 serve.img" "tier=1M mem:64M"; do
	rm -f serve.out
	"$gpu4fs" serve --socket serve.socket -o "${asked/ */}" "${asked/* /}" >serve.out 2>serve.err &
	server=$!
	for _ in $(seq 6000); do
		[[ -s serve.out ]] && break
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	equals "$asked: it says that there is none" 1 "$(grep -c 'no second tier' serve.err)"
	kill "$server"
	wait "$server"
done
equals "the socket is gone" "" "$([[ -e serve.socket ]] && echo there)"
exits 0 "the image is clean" "$gpu4fs" fsck -n serve.img

touch file
exits 1 "a file in the place of the socket" "$gpu4fs" serve --socket file mem:64M
says "... is told" "or it is no socket"

# Where there is no GPU, engine=cuda says so and engine=auto takes the CPU.
if [[ ! -e /dev/nvidiactl ]]; then
	exits 1 "engine=cuda without a GPU" "$gpu4fs" serve --socket s -o engine=cuda mem:64M
	one_sentence "... is refused in one sentence"
	says "... that names the engine" "CUDA"
	"$gpu4fs" serve --socket auto.socket -o engine=auto serve.img >auto.out 2>auto.err &
	server=$!
	for _ in $(seq 6000); do
		[[ -s auto.out ]] && break
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	equals "engine=auto serves" "serving serve.img at auto.socket, engine" "$(sed 's/ [a-z]*$//' auto.out)"
	equals "... on the CPU, and says why" 1 "$(grep -c 'info: the CPU runs the file system: .*CUDA' auto.err)"
	kill "$server"
	wait "$server"
	equals "... and ends well" 0 $?
fi
finish
