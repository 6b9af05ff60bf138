package peers_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var handshake = plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "LIGHTWORK_BENCH", MagicCookieValue: "echo"}

// echoPlugin is the host's side of the plugin.
type echoPlugin struct{ plugin.NetRPCUnsupportedPlugin }

func (echoPlugin) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error { return nil }

func (echoPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

func startPlugin(tb testing.TB) (echo, func()) {
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: handshake, Plugins: plugin.PluginSet{"echo": echoPlugin{}},
		Cmd: exec.Command(child(tb, "go-plugin")), AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger: hclog.NewNullLogger(),
	})
	protocol, err := client.Client()
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := protocol.Dispense("echo")
	if err != nil {
		tb.Fatal(err)
	}
	conn := raw.(*grpc.ClientConn)
	call := func(ctx context.Context, doc json.RawMessage) (json.RawMessage, error) {
		var out wrapperspb.BytesValue
		err := conn.Invoke(ctx, "/"+echoService+"/"+echoMethod, &wrapperspb.BytesValue{Value: doc}, &out)
		return out.Value, err
	}
	return call, client.Kill
}
