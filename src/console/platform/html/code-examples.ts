import { type RouteConfig, WORKSPACE_PARAMETER } from '../../../domain/route/route.ts'
import { type Html, html } from './html.ts'

/** A placeholder for an unknown URL. */
export const UNKNOWN_ADDRESS = '$API'

interface CodeExample {
  readonly name: string
  readonly code: string
}

/**
 * Commands and programs that read the key without its getting into a shell's history or a list of processes. A URL of ours
 * needs no more than double quotes in any of these languages.
 */
export function codeExamples(url: string): readonly CodeExample[] {
  return [
    { name: 'curl', code: curlExample(url) },
    { name: 'PowerShell', code: powerShellExample(url) },
    { name: 'JavaScript', code: javaScriptExample(url) },
    { name: 'Python', code: pythonExample(url) },
    { name: 'Go', code: goExample(url) },
  ]
}

/** One command, for bash and zsh: pasted as two, the second would be read as the key. */
export function curlExample(url: string): string {
  return `read -rs KEY && curl -sS "${url}" \\
  -H @- <<< "Authorization: Bearer $KEY"`
}

/** Also for Windows PowerShell 5.1, whose `curl` is another command. */
function powerShellExample(url: string): string {
  return `Invoke-RestMethod "${url}" -Headers @{
  Authorization = "Bearer $([Net.NetworkCredential]::new('', (Read-Host -AsSecureString)).Password)"
}`
}

function javaScriptExample(url: string): string {
  return `const headers = { authorization: \`Bearer \${process.env.KEY}\` }
const response = await fetch("${url}", { headers })
console.log(response.status, await response.json())`
}

function pythonExample(url: string): string {
  return `import os, urllib.request

request = urllib.request.Request(
    "${url}",
    headers={"Authorization": "Bearer " + os.environ["KEY"]},
)
with urllib.request.urlopen(request, timeout=30) as response:
    print(response.status, response.read().decode())`
}

function goExample(url: string): string {
  return `package main

import (
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	request, err := http.NewRequest("GET", "${url}", nil)
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("KEY"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	io.Copy(os.Stdout, response.Body)
}`
}

/** Of the languages, one is open at a time; without a script too. */
export function codeExampleList(examples: readonly CodeExample[]): Html {
  const items = examples.map(({ name, code }, index) => {
    const id = `example-${name.toLowerCase()}`
    return html`<details name="example"${index === 0 ? html` open` : null}><summary>${name}</summary>
      <div class="copyable"><pre tabindex="0" aria-label="Example in ${name}"><code id="${id}">${code}</code></pre>
        <button type="button" data-copies="${id}" hidden>Copy</button></div>
    </details>`
  })
  return html`<div class="examples">${items}</div>
    <p class="hint">The examples in curl and PowerShell wait for you to paste the key and press Enter; the key does not appear. The programs read it from the
      environment variable <code>KEY</code>: <code>read -rs KEY &amp;&amp; export KEY</code> sets it without leaving it in the shell’s history.</p>`
}

/** The URL to try a new key at: the endpoint without a scope, or the first that the key's scopes allow. */
export function firstEndpoint(
  { workspaceId, scopes }: { readonly workspaceId: string; readonly scopes: readonly string[] },
  routes: readonly RouteConfig[],
  gatewayUrl: string | null,
): string {
  const open = routes.filter(
    ({ path, scope }) => isPlain(path) && (scope === undefined || scopes.includes(scope)),
  )
  const route = open.find(({ scope }) => scope === undefined) ?? open[0]
  const path = (route?.path ?? '/').replace(`{${WORKSPACE_PARAMETER}}`, workspaceId)
  return `${gatewayUrl ?? UNKNOWN_ADDRESS}${path}`
}

/** Whether the path has no parameter besides the workspace. */
function isPlain(path: string): boolean {
  return !path.replace(`{${WORKSPACE_PARAMETER}}`, '').includes('{')
}
