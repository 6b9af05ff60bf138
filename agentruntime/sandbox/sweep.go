package sandbox

import (
	"errors"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
)

// Sweep removes the cgroups, kills the processes still in them, and removes the
// folders of sandboxes whose agent is gone: what a crash may leave behind. Mounts
// need no sweep: they end with the namespace. It is safe while other agents run.
func Sweep(opts Options) error {
	opts, err := opts.withDefaults()
	if err != nil {
		return err
	}
	removed, err := cgroup.Sweep(opts.CgroupRoot)
	for _, dir := range removed {
		opts.Logger.Info("removed what a crashed sandbox left", "cgroup", dir)
	}
	places, placeErr := sweepPlaces(opts.WorkDir)
	for _, dir := range places {
		opts.Logger.Info("removed what a crashed sandbox left", "folder", dir)
	}
	return errors.Join(err, placeErr)
}
