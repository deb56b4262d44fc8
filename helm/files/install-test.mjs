// What `helm test` runs, with the program's own image: the release answers as it should. It waits for nothing but the
// network: Helm has waited for the pods.
import { execFileSync } from 'node:child_process'

const { GATEWAY, GATEWAY_OPS, CONSOLE, CONSOLE_OPS, VERSION, PROGRAM, ATTEMPTS = '10' } = process.env
const failures = []

await expect(`the image is of version ${VERSION}`, () => {
  const said = execFileSync(process.execPath, [PROGRAM, '--version'], { encoding: 'utf8' }).trim()
  return said === VERSION || `it says ${said}`
})
for (const [name, ops] of Object.entries({ gateway: GATEWAY_OPS, console: CONSOLE_OPS })) {
  if (!ops) continue
  await expect(`the ${name} lives`, async () => (await get(`${ops}/livez`)).status === 200)
  await expect(`the ${name} is ready`, async () => (await get(`${ops}/readyz`)).status === 200)
  await expect(`the ${name} says its version in its metrics`, async () => {
    const { text } = await get(`${ops}/metrics`)
    const build = /^postern_build_info\{.*\} 1$/m.exec(text)?.[0] ?? 'no postern_build_info'
    return build.includes(`version="${VERSION}"`) || `it says ${build}`
  })
}
if (GATEWAY) {
  await expect('the gateway refuses who brings no key', async () => {
    const { status, text } = await get(`${GATEWAY}/api/v1/auth`)
    return (status === 401 && JSON.parse(text).code === 'key_missing') || `it answered ${status}`
  })
  await expect('the public port has no metrics', async () => (await get(`${GATEWAY}/metrics`)).status === 404)
}
if (CONSOLE) {
  await expect('the console refuses who brings no token', async () => {
    const { status } = await get(`${CONSOLE}/admin/v1/workspaces/helm-test/keys`)
    return status === 401 || `it answered ${status}`
  })
  await expect('the console’s public port has nothing that gateways ask for', async () => {
    const { status } = await get(`${CONSOLE}/internal/v1/keys/${'0'.repeat(64)}`)
    return status === 404 || `it answered ${status}`
  })
}
process.exitCode = failures.length === 0 ? 0 : 1

/** Tries for a while: a name of a Service may take seconds to be known. */
async function expect(what, check) {
  let answer
  for (let attempt = 0; attempt < Number(ATTEMPTS) && answer !== true; attempt++) {
    if (attempt > 0) await new Promise(resolve => setTimeout(resolve, 1000))
    answer = await Promise.resolve()
      .then(check)
      .catch(error => error.cause?.code ?? error.message)
  }
  const failed = answer === true ? '' : ` (${answer === false ? 'it does not' : answer})`
  process.stdout.write(`${failed === '' ? 'ok' : 'FAILED'}: ${what}${failed}\n`)
  if (failed !== '') failures.push(what)
}

async function get(url) {
  const response = await fetch(url, { signal: AbortSignal.timeout(5000) })
  return { status: response.status, text: await response.text() }
}
