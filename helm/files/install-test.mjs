// Run by `helm test` in Postern's own image: checks that the installed release works. Helm has already waited for the pods.
import { execFileSync } from 'node:child_process'

const { GATEWAY, GATEWAY_OPS, CONSOLE, CONSOLE_OPS, VERSION, PROGRAM, ATTEMPTS = '10' } = process.env
const failures = []

await expect(`the image is of version ${VERSION}`, () => {
  const printed = execFileSync(process.execPath, [PROGRAM, '--version'], { encoding: 'utf8' }).trim()
  return printed === VERSION || `it prints ${printed}`
})
for (const [name, ops] of Object.entries({ gateway: GATEWAY_OPS, console: CONSOLE_OPS })) {
  if (!ops) continue
  await expect(`the ${name} is alive`, async () => (await get(`${ops}/livez`)).status === 200)
  await expect(`the ${name} is ready`, async () => (await get(`${ops}/readyz`)).status === 200)
  await expect(`the metrics of the ${name} show its version`, async () => {
    const { text } = await get(`${ops}/metrics`)
    const build = /^postern_build_info\{.*\} 1$/m.exec(text)?.[0] ?? 'no postern_build_info'
    return build.includes(`version="${VERSION}"`) || `they show ${build}`
  })
}
if (GATEWAY) {
  await expect('the gateway rejects requests without a key', async () => {
    const { status, text } = await get(`${GATEWAY}/api/v1/auth`)
    return (status === 401 && JSON.parse(text).code === 'key_missing') || `it responded with ${status}`
  })
  await expect('the public port has no metrics', async () => (await get(`${GATEWAY}/metrics`)).status === 404)
}
if (CONSOLE) {
  await expect('the console rejects requests without a token', async () => {
    const { status } = await get(`${CONSOLE}/admin/v1/workspaces/helm-test/keys`)
    return status === 401 || `it responded with ${status}`
  })
  await expect('the console’s public port does not serve the internal API', async () => {
    const { status } = await get(`${CONSOLE}/internal/v1/keys/${'0'.repeat(64)}`)
    return status === 404 || `it responded with ${status}`
  })
}
process.exitCode = failures.length === 0 ? 0 : 1

/** Retries: the DNS name of a Service may take seconds to resolve. `check` returns true, or what it found instead. */
async function expect(what, check) {
  let result
  for (let attempt = 0; attempt < Number(ATTEMPTS) && result !== true; attempt++) {
    if (attempt > 0) await new Promise(resolve => setTimeout(resolve, 1000))
    result = await Promise.resolve()
      .then(check)
      .catch(error => error.cause?.code ?? error.message)
  }
  const failed = result === true ? '' : ` (${result === false ? 'it does not' : result})`
  process.stdout.write(`${failed === '' ? 'ok' : 'FAILED'}: ${what}${failed}\n`)
  if (failed !== '') failures.push(what)
}

async function get(url) {
  const response = await fetch(url, { signal: AbortSignal.timeout(5000) })
  return { status: response.status, text: await response.text() }
}
