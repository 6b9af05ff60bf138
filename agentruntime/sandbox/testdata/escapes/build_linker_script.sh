# must not: write a file through a linker
escaped() { echo "escaped: $*"; }
printf 'int main(void){return 0;}' >a.c
gcc -o "$CANARY_FILE" a.c && escaped "linked over the canary"
gcc -Wl,-Map="$CANARY_FILE" -o a a.c && escaped "wrote a map"
gcc -save-temps -dumpdir "$CANARY_FILE" -c a.c && escaped "dumped"
gcc -o /usr/bin/x a.c && escaped "linked into /usr/bin"
echo done
