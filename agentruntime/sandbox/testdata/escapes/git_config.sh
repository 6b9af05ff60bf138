# must not: run a command that a repository's config names
escaped() { echo "escaped: $*"; }
git init -q r && cd r && git config user.email e@e && git config user.name n
x='cat $CANARY_FILE && echo escaped: config; false'
for k in core.fsmonitor core.sshCommand core.pager core.editor core.askPass diff.external credential.helper gpg.program uploadpack.packObjectsHook core.gitProxy; do git config $k "$x"; done
git config filter.f.clean "$x" && git config filter.f.smudge "$x" && echo '* filter=f' >.gitattributes
git config alias.st "!$x"
git status; git add .; git diff; git st; timeout 5 git fetch ssh://127.0.0.1/x; timeout 5 git fetch git://127.0.0.1/x
echo done
