# must not: get the agent's environment
escaped() { echo "escaped: $*"; }
env | grep -i 'agent_secret' && escaped "inherited"
cat /proc/*/environ 2>/dev/null | tr '\0' '\n' | grep -i agent_secret && escaped "read"
echo done
