// Sends requests with net/http, with offers in their headers. Arguments: method, address, token, body or "-".
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ExpectContinueTimeout = 20 * time.Second
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	arguments := os.Args[1:]
	for index := 0; index < len(arguments); index += 4 {
		text, continues := strings.CutPrefix(arguments[index+3], "continue:")
		var body io.Reader
		if text != "-" {
			body = strings.NewReader(text)
		}
		request, err := http.NewRequest(arguments[index], arguments[index+1], body)
		if err != nil {
			panic(err)
		}
		request.Header.Set("Authorization", "Bearer "+arguments[index+2])
		request.Header.Set("Content-Type", "application/json")
		if continues {
			request.Header.Set("Expect", "100-continue")
		} else {
			request.Header.Set("Connection", "Upgrade")
			request.Header.Set("Upgrade", "h2c")
		}
		response, err := client.Do(request)
		if err != nil {
			panic(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		fmt.Println(response.StatusCode)
	}
}
