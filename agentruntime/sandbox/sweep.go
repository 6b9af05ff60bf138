package sandbox

import "github.com/lightwork-market/lightwork/agentruntime/cgroup"

// Sweep removes the cgroups, and kills the processes still in them, of
// sandboxes whose agent is gone: what a crash may leave behind. Mounts need no
// sweep: they end with the namespace. It is safe while other agents run.
func Sweep(opts Options) error {
	opts, err := opts.withDefaults()
	if err != nil {
		return err
	}
	removed, err := cgroup.Sweep(opts.CgroupRoot)
	for _, dir := range removed {
		opts.Logger.Info("removed what a crashed sandbox left", "cgroup", dir)
	}
	return err
}
