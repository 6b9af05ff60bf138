package sales_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/sales"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

// TestPoliciesAreKept: every manifest that was sold under is listed, the last
// used first, and its bytes stay.
func TestPoliciesAreKept(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	old, current := []byte("old"), []byte("current")
	for i, m := range [][]byte{current, old, old, current} {
		k.Now = storetest.Start.Add(time.Duration(i) * time.Minute)
		storetest.Must(t, s.UsePolicy(t.Context(), m))
	}
	j := storetest.Job("x", "hold")
	j.PolicyID = hashing.Bytes(old)
	storetest.Must(t, s.AddJob(t.Context(), j))
	k.Reopen(t)
	s = k.Sales("p")
	got, err := s.Policies(t.Context())
	want := []sales.Policy{
		{ID: hashing.Bytes(current), FirstAt: storetest.Start, LastAt: storetest.Start.Add(3 * time.Minute)},
		{ID: hashing.Bytes(old), FirstAt: storetest.Start.Add(time.Minute), LastAt: storetest.Start.Add(2 * time.Minute), Jobs: 1},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if doc, err := s.Content(t.Context(), hashing.Bytes(old)); string(doc) != "old" || err != nil {
		t.Errorf("manifest %q, %v", doc, err)
	}
}
