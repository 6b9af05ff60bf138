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

// echoPlugin speaks gRPC without generated code.
type echoPlugin struct{ plugin.NetRPCUnsupportedPlugin }

func (echoPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: echoService, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: echoMethod,
			Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				in := new(wrapperspb.BytesValue)
				err := decode(in)
				return in, err
			},
		}},
	}, nil)
	return nil
}

func (echoPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

func startPlugin(tb testing.TB) (echo, func()) {
	args := child(tb, "go-plugin")
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: handshake, Plugins: plugin.PluginSet{"echo": echoPlugin{}},
		Cmd: exec.Command(args[0], args[1:]...), AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
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

func servePlugin(context.Context, []string) error {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: handshake, Plugins: plugin.PluginSet{"echo": echoPlugin{}},
		GRPCServer: plugin.DefaultGRPCServer, Logger: hclog.NewNullLogger(),
	})
	return nil
}
