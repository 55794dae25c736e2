#!/usr/bin/env bash
# Measures the judge of `wirelab load`: what it refuses against what is truly wrong, beside programs that
# only use CPU and beside a second wirelab. Run it on a quiet machine: a trial is truly wrong if its mean
# is more than a tenth from the median of all trials without such programs. As root, it measures as an
# ordinary user, too. It prints a Markdown table after about ten minutes.
#
# usage: tools/judge-curve.sh [WIRELAB]   WORK=5ms: how long the service sleeps; TRIALS='50ms:8 1s:5': windows and trials
set -euo pipefail

wirelab=$(realpath "${1:-bin/wirelab}")
trials=${TRIALS:-50ms:8 200ms:8 500ms:8 1s:5 3s:3 10s:1}
folder=$(mktemp -d)
chmod 777 "$folder"
others=() service=
end_others() {
	if [ ${#others[@]} -gt 0 ]; then
		kill "${others[@]}" 2>/dev/null || true
		wait "${others[@]}" 2>/dev/null || true
	fi
	others=()
}
trap 'end_others; kill $service; rm -rf "$folder"' EXIT

"$wirelab" serve --stack rest-json --workload "users:work=${WORK:-1ms}" --json >"$folder/ready" 2>"$folder/serve.log" &
service=$!
until url=$(grep -o '127\.0\.0\.1:[0-9]*' "$folder/ready"); do
	kill -0 $service 2>/dev/null || { cat "$folder/serve.log" >&2; exit 1; }
	sleep 0.1
done
url=http://$url/users/user-0000042

users='ordinary'
[ "$(id -u)" != 0 ] || users='root ordinary'
as() { # runs a command as a user
	if [ "$1" = ordinary ] && [ "$(id -u)" = 0 ]; then
		shift
		HOME=$folder setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
	else
		shift
		"$@"
	fi
}

start_others() { # "2 burners" or "a second wirelab"
	case $1 in
	*burner*)
		for _ in $(seq "${1%% *}"); do
			(while :; do :; done) &
			others+=($!)
		done
		;;
	*wirelab)
		"$wirelab" compare --stack grpc,rest --budget 1h -o "$folder/second" >/dev/null 2>&1 &
		others+=($!)
		sleep 2 # until it measures
		;;
	esac
}

cd "$folder"
for user in $users; do
	for beside in nothing '1 burner' '2 burners' '4 burners' 'a second wirelab'; do
		start_others "$beside"
		for window in $trials; do
			for _ in $(seq "${window#*:}"); do
				status=0
				as "$user" "$wirelab" load -c 4 -z "${window%:*}" -o run "$url" >output 2>&1 || status=$?
				if [ $status != 0 ] && [ $status != 4 ]; then # 4: the trial was refused
					cat output >&2
					exit 1
				fi
				mean=$(sed -E 's/.*"service":\{"count":([0-9]+),"sum_ns":([0-9]+).*/\1 \2/' run/records.jsonl | awk '{ print $2 / $1 }')
				refused=$(grep -c '"level":"invalid"' run/records.jsonl || true)
				printf '%s\t%s\t%s\t%s\t%s\n' "$user" "$beside" "${window%:*}" "$mean" "$refused" >>trials
				rm -rf run
			done
		done
		end_others
		rm -rf second
		echo "judge-curve: $user, beside $beside: measured" >&2
	done
done

# The median of the trials beside nothing comes first, one line per user.
for user in $users; do
	awk -F'\t' -v user="$user" '$1 == user && $2 == "nothing" { print $4 }' trials | sort -g |
		awk -v user="$user" '{ mean[NR] = $1 } END { printf "quiet\t%s\t%s\n", user, mean[int((NR + 1) / 2)] }'
done | cat - trials | awk -F'\t' '
	$1 == "quiet" { quiet[$2] = $3; printf "The mean beside nothing is %.4g ms (%s).\n", $3 / 1e6, $2; next }
	{
		row = $1 " | " $2 " | " $3
		if (!(row in trials)) rows[++n] = row
		off = $4 / quiet[$1] - 1
		wrong = off > 0.1 || off < -0.1
		trials[row]++; refused[row] += $5; wrongs[row] += wrong; missed[row] += wrong && !$5; needless[row] += !wrong && $5
		if (off > most[row]) most[row] = off
	}
	END {
		print "\n| user | beside | window | trials | refused | truly wrong | wrong, not refused | right, refused | worst mean |"
		print "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
		for (i = 1; i <= n; i++) {
			row = rows[i]
			printf "| %s | %d | %d | %d | %d | %d | %+.0f %% |\n", row, trials[row], refused[row], wrongs[row], missed[row], needless[row], 100 * most[row]
		}
	}'
