# must not: write outside by a repository's tree
escaped() { echo "escaped: $*"; }
git init -q r && cd r && git config user.email e@e && git config user.name n
h=$(echo pwned | git hash-object -w --stdin)
l=$(printf '%s' "$(dirname "$CANARY_FILE")" | git hash-object -w --stdin)
for p in ../x .git/hooks/post-checkout .GIT/config 'git~1/config' '.git\config'; do git update-index --add --cacheinfo "100755,$h,$p" && git checkout-index -fa; done
git update-index --add --cacheinfo "120000,$l,d" && git checkout-index -fa
echo pwned >"d/$(basename "$CANARY_FILE")" && escaped "wrote through a link in the tree"
echo done
