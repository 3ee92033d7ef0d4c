// Round trips of a Go program: the first site asks all others, who answer, each in a goroutine.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

func serve(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go io.Copy(connection, connection)
	}
}

// ask sends messages of random sizes, and returns how long the slowest answer took.
func ask(address string, rounds, most int) (time.Duration, error) {
	connection, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	var slowest time.Duration
	for i := 0; i < rounds; i++ {
		message := make([]byte, 1+rand.Intn(most))
		start := time.Now()
		go connection.Write(message)
		if _, err := io.ReadFull(connection, message); err != nil {
			return 0, err
		}
		if took := time.Since(start); took > slowest {
			slowest = took
		}
	}
	return slowest, nil
}

func main() {
	rounds := flag.Int("rounds", 20, "messages to each site")
	most := flag.Int("bytes", 200_000, "of the largest message")
	flag.Parse()
	rand.Seed(time.Now().UnixNano())
	sites := strings.Split(os.Getenv("TRUNKLINE_SITES"), ",")
	if os.Getenv("RANK") != "0" {
		listener, err := net.Listen("tcp", ":7000")
		if err != nil {
			log.Fatal(err)
		}
		serve(listener)
	}
	var asked sync.WaitGroup
	for _, site := range sites[1:] {
		asked.Add(1)
		go func(site string) {
			defer asked.Done()
			slowest, err := ask(site+":7000", *rounds, *most)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%s: %d answers, the slowest after %v\n", site, *rounds, slowest.Round(time.Millisecond))
		}(site)
	}
	asked.Wait()
}
