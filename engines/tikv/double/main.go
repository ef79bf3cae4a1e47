// A fault injector that speaks PD's and TiKV's protocols: several placement drivers and stores in one process, over
// client-go's own test store, with an HTTP control surface under /dev (see ../README.md). Nothing outlives it.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/tikv/client-go/v2/testutils"
)

func main() {
	pdAddrs := flag.String("pd", "127.0.0.1:2379", "where placement drivers listen, gRPC and HTTP, separated by commas; the first leads")
	storeAddrs := flag.String("stores", "127.0.0.1:20160", "where stores listen, separated by commas")
	cert := flag.String("cert", "", "PEM file: serve TLS under this certificate")
	key := flag.String("key", "", "PEM file: its key")
	ca := flag.String("ca", "", "PEM file: ask clients for a certificate that this authority signed")
	flag.Parse()

	client, cluster, pd, err := testutils.NewMockTiKV("", nil)
	must(err)
	secure, err := tlsOf(*cert, *key, *ca)
	must(err)
	faults := &faults{}
	w := &world{client: client, cluster: cluster, pd: pd, faults: faults, secure: secure}
	w.bootstrap(strings.Split(*pdAddrs, ","), strings.Split(*storeAddrs, ","))
	log.Printf("ready pd=%s stores=%s", *pdAddrs, *storeAddrs)

	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM)
	<-c
}

// tlsOf gives nil when there is no certificate.
func tlsOf(cert, key, ca string) (*tls.Config, error) {
	if cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if ca == "" {
		return c, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in " + ca)
	}
	return c, nil
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
