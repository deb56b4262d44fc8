import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Outcome, StreamRequest } from './http2-client.ts'
import { pythonEnvironment } from './python-environment.ts'

const SCRIPT = fileURLToPath(new URL('http3-client.py', import.meta.url))
const run = promisify(execFile)

/** Uses all connections at once, and sends the requests of each one after another. Node has no QUIC; a Python package does. */
export async function sendOverHttp3(
  url: string,
  connections: readonly (readonly StreamRequest[])[],
  patienceMs: number,
): Promise<Outcome[]> {
  const { hostname, port } = new URL(url)
  const plan = { host: hostname, port: Number(port), patienceMs, connections }
  const { stdout } = await run(join(pythonEnvironment('aioquic'), 'python3'), [SCRIPT, JSON.stringify(plan)])
  // Printed by our own script.
  return JSON.parse(stdout) as Outcome[]
}
