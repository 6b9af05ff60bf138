# must not: give out a name that leads elsewhere
# artifacts: ...,..x,back\slash
escaped() { echo "escaped: $*"; }
cd "$LIGHTWORK_ARTIFACTS" && echo x >'..x' && echo x >'...' && echo x >"$(printf 'a\nb')" && echo x >"$(printf 'c\033[0m')" && echo x >"$(printf 'bad\377utf')" && echo x >'back\slash'
echo done
