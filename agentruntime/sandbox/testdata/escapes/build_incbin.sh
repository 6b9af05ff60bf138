# must not: read a file through a compiler
# landlock lets: has_include .*
escaped() { echo "escaped: $*"; }
for f in /etc/shadow "$CANARY_FILE" /proc/1/environ; do
	printf '__asm__(".incbin \"%s\"");' "$f" >a.c && gcc -c -o a.o a.c && escaped "incbin $f"
	printf '#include "%s"\n' "$f" >b.c && gcc -E b.c | grep -q canary && escaped "include $f"
	printf '#if __has_include("%s")\n#error there\n#endif\n' "$f" >c.c && ! gcc -E c.c >c.out && escaped "has_include $f"
done
echo done
