# must not: run a hook outside
escaped() { echo "escaped: $*"; }
git init -q r && cd r && git config user.email e@e && git config user.name n
printf '#!/bin/sh\ncat "$CANARY_FILE" && echo escaped: hook\n' >.git/hooks/pre-commit && chmod +x .git/hooks/pre-commit
cp .git/hooks/pre-commit .git/hooks/post-checkout; cp .git/hooks/pre-commit .git/hooks/post-merge
echo x >f && git add f && git commit -qm m; git checkout -q -b b
echo done
