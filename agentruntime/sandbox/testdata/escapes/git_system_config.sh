# must not: change git for others
escaped() { echo "escaped: $*"; }
git config --system core.pager x && escaped "system config"
echo x >/etc/gitconfig && escaped "/etc/gitconfig"
git config --global core.pager x; HOME=/root git config --global core.pager x && escaped "root's config"
echo done
