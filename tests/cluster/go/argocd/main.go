// Command argocd is the part of Argo CD that its first argument names: `repo-server`, `application-controller`, or
// `redis`, the cache that both share.
//
// Argo CD's own main package holds the web server too, and embeds pages that only its release build makes.
package main

import (
	"fmt"
	"os"

	"github.com/alicebob/miniredis/v2"
	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	repository "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) < 2 {
		return fmt.Errorf("usage: argocd repo-server|application-controller|redis ...")
	}
	// Each command reads the arguments after its name.
	os.Args = os.Args[1:]
	switch os.Args[0] {
	case "repo-server":
		return repository.NewCommand().Execute()
	case "application-controller":
		return controller.NewCommand().Execute()
	case "redis":
		return redis(os.Args[1:])
	}
	return fmt.Errorf("there is no part %q", os.Args[0])
}

// redis serves at an address until it is killed, as Argo CD's own command line does where it needs no server.
func redis(arguments []string) error {
	if len(arguments) != 1 {
		return fmt.Errorf("usage: argocd redis ADDRESS")
	}
	if err := miniredis.NewMiniRedis().StartAddr(arguments[0]); err != nil {
		return err
	}
	select {}
}
