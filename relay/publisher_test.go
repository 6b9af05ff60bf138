package relay

import (
	"errors"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

func TestPublisher(t *testing.T) {
	r := startRelay(t)
	ev := note(t, "brought", 0)
	if got := NewPublisher(PublisherConfig{AllowLoopback: true}).Publish(t.Context(), r.url(), ev); !got.OK || got.Err != nil {
		t.Errorf("%+v", got)
	}
	pool := startPool(t, Config{URLs: []string{r.url()}})
	publish(t, pool, ev) // it has it: that is fine
	c := NewPublisher(PublisherConfig{})
	for _, address := range []string{
		r.url(), "ws://example.com", "wss://10.0.0.1", "wss://169.254.169.254/latest", "wss://[::1]", "https://example.com", "wss://user@example.com",
		"", "ws", "file:///etc/passwd", "wss://localhost:1", strings.Repeat("x", 9999),
	} {
		if got := c.Publish(t.Context(), address, ev); got.OK || !errors.Is(got.Err, ErrBlockedAddress) {
			t.Errorf("%.60q: %+v", address, got)
		}
	}
	for _, address := range []string{"wss://1.1.1.1:22", "wss://1.1.1.1:25", "wss://[2606:4700::1111]:6697", "wss://168.63.129.16"} {
		if got := c.Publish(t.Context(), address, ev); got.OK || !errors.Is(got.Err, ErrBlockedAddress) {
			t.Errorf("%s: %+v", address, got)
		}
	}
	for port, want := range map[uint16]bool{443: true, 1024: true, 7777: true, 8443: true, 65535: true, 0: false, 22: false, 80: false, 853: false, 2049: false, 5060: false, 10080: false} {
		if isRelayPort(port) != want {
			t.Errorf("port %d: %v", port, !want)
		}
	}
	if !c.guard.notOwn {
		t.Error("it goes to the public addresses of this machine")
	}
	babbler := fakeRelay(t, func(_ nip01.ClientMessage, send func(string)) {
		for range 100 {
			send(`["NOTICE","x"]`)
		}
	})
	if got := NewPublisher(PublisherConfig{AllowLoopback: true}).Publish(t.Context(), babbler, ev); got.OK || got.Err == nil {
		t.Errorf("a relay that says much and not OK: %+v", got)
	}
}
