// Command ttrpc serves on the socket that it is told, and says when it does.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"

	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func main() {
	ln, err := net.Listen("unix", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	s, err := ttrpc.NewServer()
	if err != nil {
		log.Fatal(err)
	}
	s.RegisterService("lightwork.bench.Echo", &ttrpc.ServiceDesc{Methods: map[string]ttrpc.Method{
		"Echo": func(_ context.Context, decode func(any) error) (any, error) {
			in := new(wrapperspb.BytesValue)
			err := decode(in)
			return in, err
		},
	}})
	fmt.Println("ready")
	log.Fatal(s.Serve(context.Background(), ln))
}
