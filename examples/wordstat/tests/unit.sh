# Tests of wordstat; sourced by check.sh, which provides same and fails.
text=$tmp/text

printf "One two two, THREE three three!\n" >"$text"
same "top orders by count" "3 three
2 two" "$(bin/wordstat top 2 "$text")"

printf "b a b a c\n" >"$text"
same "top breaks ties by alphabet" "2 a
2 b
1 c" "$(bin/wordstat top 10 "$text")"
same "top 0 is empty" "" "$(bin/wordstat top 0 "$text")"

printf "Don't 'quote' rock'n'roll '' it'\n" >"$text"
same "apostrophes inside words only" "1 don't
1 it
1 quote
1 rock'n'roll" "$(bin/wordstat top 9 "$text")"

printf "x1y 2 three-four\n" >"$text"
same "digits and dashes separate" "lines 1
words 4
distinct 4
longest three" "$(bin/wordstat summary "$text")"

: >"$text"
same "empty file" "lines 0
words 0
distinct 0
longest -" "$(bin/wordstat summary "$text")"
same "empty histogram" "" "$(bin/wordstat hist "$text")"

printf "a bb cc ddd\nno newline" >"$text"
same "histogram of lengths" "1 1
2 3
3 1
7 1" "$(bin/wordstat hist "$text")"

fails "missing file" 1 bin/wordstat summary "$tmp/none"
fails "no arguments" 2 bin/wordstat
fails "count that is no number" 2 bin/wordstat top x "$text"
fails "unknown command" 2 bin/wordstat count "$text"

# A text large enough to show that nothing depends on its size.
awk 'BEGIN { for (i = 0; i < 500000; i++) printf "w%s x%s\n", substr("abcdefghij", i % 10 + 1, 1), substr("klmno", i % 5 + 1, 1) }' >"$text"
same "many lines" "lines 500000
words 1000000
distinct 15
longest wa" "$(bin/wordstat summary "$text")"
same "top of many" "100000 xk
100000 xl" "$(bin/wordstat top 2 "$text")"
