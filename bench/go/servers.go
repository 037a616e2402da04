// Go's servers for `http_loop` and `echo`: `rival serve SERVICE` prints where it listens and serves until its input
// ends. Used by main.go.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
)

func serve(service string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err.Error())
	}
	fmt.Println(listener.Addr())
	go func() {
		os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	switch service {
	case "echo":
		for {
			connection, err := listener.Accept()
			if err != nil {
				fail(err.Error())
			}
			go echo(connection)
		}
	case "http":
		text := make([]byte, 2053)
		for i := range text {
			text[i] = '.'
		}
		length := strconv.Itoa(len(text))
		http.Serve(listener, http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
			answer.Header().Set("Content-Type", "application/octet-stream")
			answer.Header().Set("Content-Length", length)
			answer.Write(text)
		}))
	default:
		fail("no such service")
	}
}

func echo(connection net.Conn) {
	defer connection.Close()
	input := make([]byte, 4096)
	for {
		count, err := connection.Read(input)
		if err != nil {
			return
		}
		if _, err := connection.Write(input[:count]); err != nil {
			return
		}
	}
}
