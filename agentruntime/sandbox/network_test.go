package sandbox

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/internal/testclass"
)

// A provider in a network of its own, which has a way to one more machine. The
// first two addresses look public, and reach nobody from there.
const (
	ownNetworkEnv  = "LIGHTWORK_TEST_NETWORK"
	providerPublic = "192.31.7.1"
	serverPublic   = "192.31.7.2"
	providerInside = "10.77.0.1"
	serverInside   = "10.77.0.2"
)

// inOwnNetwork says whether the test runs in a network of its own; where it
// does not yet, it runs it there.
func inOwnNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownNetworkEnv) != "" {
		return true
	}
	testclass.Require(t, "ip")
	if os.Geteuid() != 0 {
		testclass.Unavailable(t, "only root makes networks")
	}
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), ownNetworkEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "--- SKIP") || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// internet wires this process to a network of its own with one machine in it,
// and returns listeners there, on all its addresses at these ports.
func internet(t *testing.T, ports ...string) []net.Listener {
	t.Helper()
	ip(t, "link set lo up")
	thread, linked := make(chan int), make(chan struct{})
	var listeners []net.Listener
	done := make(chan struct{})
	go func() {
		defer close(done)
		// This thread has another network, so it is nobody else's again.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
		}
		thread <- unix.Gettid()
		<-linked
		ip(t, "link set lo up", "addr add "+serverPublic+"/24 dev theirs", "addr add "+serverInside+"/24 dev theirs", "link set theirs up")
		for _, port := range ports {
			l, err := net.Listen("tcp4", "0.0.0.0:"+port)
			if err != nil {
				t.Error(err)
				continue
			}
			listeners = append(listeners, l)
		}
	}()
	ip(t, "link add ours type veth peer name theirs", "link set theirs netns "+strconv.Itoa(<-thread),
		"addr add "+providerPublic+"/24 dev ours", "addr add "+providerInside+"/24 dev ours", "link set ours up")
	close(linked)
	<-done
	for _, l := range listeners {
		t.Cleanup(func() { l.Close() })
	}
	if t.Failed() || len(listeners) != len(ports) {
		t.FailNow()
	}
	return listeners
}

func ip(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			t.Errorf("ip %s: %v\n%s", c, err, out)
		}
	}
}

// selfSigned is an authority and its only server in one.
func selfSigned(t *testing.T, address string) tls.Certificate {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(address)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}
