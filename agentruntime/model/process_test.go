package model

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/model/scripted"
)

// playEndpoint makes the test binary an endpoint of its own: it prints its
// address, answers once and then stops in the middle of an answer.
const playEndpoint = "MODEL_TEST_ENDPOINT"

func serveScript() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	fmt.Println("http://" + l.Addr().String())
	http.Serve(l, scripted.New(scripted.Text("hello"), scripted.Stall(hi)))
	return 1
}

// An endpoint that is killed while it answers, and one that is not there.
func TestEndpointDies(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), playEndpoint+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{BaseURL: strings.TrimSpace(url), Model: "m", Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if r, err := c.Chat(t.Context(), hello(), nil); err != nil || r.Message.Content != "hello" {
		t.Fatalf("%+v %v", r, err)
	}
	text := ""
	_, err = c.Chat(t.Context(), hello(), func(s string) {
		text += s
		cmd.Process.Kill()
	})
	if !errors.Is(err, chat.ErrUnavailable) || text != "hi" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := c.Chat(t.Context(), hello(), nil); !errors.Is(err, chat.ErrUnavailable) {
		t.Error(err)
	}
}
