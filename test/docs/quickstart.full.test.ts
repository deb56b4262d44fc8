import { once } from 'node:events'
import { createInterface, type Interface } from 'node:readline'
import { expect, onTestFinished, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { CURL, has } from '../support/tools.ts'
import { answersIn, endGroup, runBlocks, shellBlocks, startShell, withPorts } from './shell-blocks.ts'

const DOCUMENTED_PORTS = ['3000', '6379', '8080', '8081', '8082', '9090', '9091']

/** Free ports in place of the documented ones, and settings that make Postern use them. */
async function otherPorts() {
  const ports = new Map<string, number>()
  for (const documented of DOCUMENTED_PORTS) ports.set(documented, await freePort())
  const env = {
    POSTERN_GATEWAY_PORT: String(ports.get('8080')),
    POSTERN_CONSOLE_PORT: String(ports.get('8081')),
    POSTERN_CONSOLE_INTERNAL_PORT: String(ports.get('8082')),
    POSTERN_OPS_PORT: String(ports.get('9090')),
    TMPDIR: temporaryDirectory(),
  }
  return { ports, env }
}

const LIST_READABLE_FILES = `find "$dir" ! -perm 600 ! -perm 700; case "$dir" in "$PWD"/*) echo in the checkout ;; esac`

test.skipIf(!has(CURL))(
  'the quickstart works as written, and no other user can read the files it writes',
  async () => {
    const { ports, env } = await otherPorts()
    const blocks = shellBlocks('docs/quickstart.md').filter(({ needs }) => needs === null)
    const stop = blocks.at(-1)
    if (stop === undefined) throw new Error('The quickstart has no blocks')
    const script = [...blocks.slice(0, -1).map(({ text }) => text), LIST_READABLE_FILES, stop.text]
    const run = await runBlocks(
      script.map(text => withPorts(text, ports)),
      env,
    )
    expect(run, run.stderr).toMatchObject({ code: 0 })
    const shown = blocks.map(({ answer }) => answersIn(answer ?? ''))
    const given = blocks.map(({ answer }, index) =>
      answer === null ? [] : answersIn(run.outputs[index] ?? ''),
    )
    expect(given).toEqual(shown)
    expect(shown.flat()).toContainEqual({ code: 'key_revoked' })
    expect(run.outputs.at(-2)).toBe('')
  },
)

test.skipIf(!has(CURL))('the demo and the request in the README work as written', async () => {
  // The demo takes its ports from flags only.
  const { ports, env } = await otherPorts()
  const [demo, ...others] = shellBlocks('README.md').filter(({ needs }) => needs === null)
  const flags = `--gateway-port ${ports.get('8080')} --console-port ${ports.get('8081')} --ops-port ${ports.get('9090')}`
  const shell = startShell(`${demo?.text.trim() ?? ''} -- ${flags}`, env)
  onTestFinished(async () => {
    if (shell.exitCode !== null) return
    const closed = once(shell, 'close')
    endGroup(shell.pid)
    await closed
  })
  const key = await firstKeyIn(createInterface({ input: shell.stdout }))
  const run = await runBlocks(
    others.map(({ text }) => withPorts(text, ports)),
    { ...env, KEY: key },
  )
  expect(run, run.stderr).toMatchObject({ code: 0 })
  const withAnswer = others.flatMap(({ answer }, index) => (answer === null ? [] : [{ answer, index }]))
  expect(withAnswer.length).toBeGreaterThan(0)
  for (const { answer, index } of withAnswer)
    expect(answersIn(run.outputs[index] ?? '')).toEqual(answersIn(answer))
})

/** The first key that the demo prints. All output is consumed, so that the demo never writes to a closed pipe. */
function firstKeyIn(lines: Interface): Promise<string> {
  return new Promise((resolve, reject) => {
    lines.on('line', line => {
      const [, key] = /Bearer (wsk_\w+)/.exec(line) ?? []
      if (key !== undefined) resolve(key)
    })
    lines.on('close', () => reject(new Error('The demo ended without a key')))
  })
}
