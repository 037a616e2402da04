// Go's servers for `http_loop`, `echo` and the contests: `rival serve SERVICE NAME` prints where it listens and serves
// until its input ends. Used by main.go.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
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
	case "json-tls":
		serveSecured(listener, http.HandlerFunc(writeItems))
	case "file-tls":
		serveSecured(listener, http.FileServer(http.Dir(os.Getenv("BENCH_FOLDER"))))
	case "fib":
		http.Serve(listener, fibonacci(argument(3) == "Go, forks"))
	default:
		fail("no such service")
	}
}

func serveSecured(listener net.Listener, handler http.Handler) {
	folder := os.Getenv("BENCH_FOLDER")
	fail(http.ServeTLS(listener, handler, folder+"/chain.pem", folder+"/key.pem").Error())
}

type item struct {
	Id    int       `json:"id"`
	Name  string    `json:"name"`
	Price price     `json:"price"`
	Tags  [2]string `json:"tags"`
}

// A number that has a fraction, as in the other servers' JSON.
type price float64

func (number price) MarshalJSON() ([]byte, error) {
	text := strconv.AppendFloat(nil, float64(number), 'f', -1, 64)
	if !bytes.ContainsRune(text, '.') {
		text = append(text, ".0"...)
	}
	return text, nil
}

// An object of ten items, serialised for each request.
func writeItems(answer http.ResponseWriter, _ *http.Request) {
	items := make([]item, 10)
	for i := range items {
		id := i + 1
		items[i] = item{id, fmt.Sprintf("item %d", id), price(float64(id) * 1.25), [2]string{"new", "blue"}}
	}
	text, _ := json.Marshal(map[string]any{"count": len(items), "items": items})
	answer.Header().Set("Content-Type", "application/json")
	answer.Write(text)
}

// How much less than the number of the path each request of a mixture asks for, in turn: as in the Rust file of the
// contest.
var less = [16]int{10, 10, 10, 4, 10, 10, 10, 0, 10, 10, 10, 4, 10, 10, 10, 4}

// Answers /fib/N, and /mixed/N. Each request has a goroutine, which forks others or does not.
func fibonacci(forks bool) http.Handler {
	var asked atomic.Uint64
	return http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		kind, text, _ := strings.Cut(strings.TrimPrefix(request.URL.Path, "/"), "/")
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 93 {
			http.Error(answer, "no such number", http.StatusBadRequest)
			return
		}
		if kind == "mixed" {
			n = max(n-less[(asked.Add(1)-1)%16], 0)
		}
		if forks {
			n = fibPar(n)
		} else {
			n = fibAlone(n)
		}
		fmt.Fprintf(answer, "%20d\n", n)
	})
}

func fibAlone(n int) int {
	if n < 2 {
		return n
	}
	return fibAlone(n-1) + fibAlone(n-2)
}

func fibPar(n int) int {
	if n <= 20 {
		return fibAlone(n)
	}
	left := make(chan int, 1)
	go func() { left <- fibPar(n - 1) }()
	right := fibPar(n - 2)
	return <-left + right
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
