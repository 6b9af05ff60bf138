package playnet

import (
	"database/sql"
	"fmt"
	"time"
)

func millis(t time.Time) int64 { return t.UnixMilli() }

func fromMillis(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return time.UnixMilli(ms.Int64).UTC()
}

// blob32 scans a BLOB of 32 bytes; NULL gives zeros.
type blob32 struct{ to *[32]byte }

func (b blob32) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*b.to = [32]byte{}
		return nil
	case []byte:
		if len(v) == 32 {
			*b.to = [32]byte(v)
			return nil
		}
	}
	return fmt.Errorf("a column does not hold 32 bytes")
}
