package sqlite

import "os"

const (
	// logSize is about what the log has when a checkpoint lets it begin anew: so
	// many pages, each with its header. Its file is never made smaller.
	logSize = checkpointPages * (4096 + 24)
	logStep = 1 << 20
)

// reserve writes zeros behind the end of the log when commits have reached it.
// A commit that writes over something synchronises its own pages; one that makes
// the file longer waits for the file system's journal, too, and for whatever
// others have in it. To SQLite the log ends at the first frame without a
// checksum, so zeros are nothing. It is called inside a write transaction: SQLite
// lets one opener write to the log, so that the zeros fall on nothing that another
// process has committed meanwhile.
func (db *DB) reserve() {
	if db.reserved >= logSize {
		return
	}
	name := db.path + "-wal"
	st, err := os.Stat(name)
	if err != nil || st.Size() <= db.reserved {
		return
	}
	if err := extend(name, st.Size()); err != nil {
		// The commits will say if the disk is full.
		db.log.Warn("no room is kept for the log", "path", name, "error", err)
		db.reserved = logSize
		return
	}
	db.reserved = st.Size() + logStep
}

func extend(name string, from int64) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close() // what is lost here is zeros
	_, err = f.WriteAt(make([]byte, logStep), from)
	return err
}
