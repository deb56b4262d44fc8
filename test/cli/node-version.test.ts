import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const GUARD = fileURLToPath(new URL('../../src/supported-node.cjs', import.meta.url))

/** Runs the guard that stands before the program, on a Node that says it is of this version. */
function startOn(version: string) {
  const versions = JSON.stringify({ node: version })
  const script = `Object.defineProperty(process, 'versions', { value: ${versions} }); require(${JSON.stringify(GUARD)}); process.stdout.write('started')`
  return spawnSync(process.execPath, ['-e', script], { encoding: 'utf8' })
}

test.each(['24.18.0', '24.9.9', '23.11.0', '22.22.0', '20.19.5', '18.0.0'])(
  'a Node with known holes is refused, with what to do: %s',
  version => {
    const { status, stdout, stderr } = startOn(version)
    expect([status, stdout]).toEqual([1, ''])
    expect(stderr).toContain(`this is ${version}`)
    expect(stderr).toContain('npm ci')
  },
)

test.each(['24.18.1', '24.21.0', '25.0.0'])('%s is taken', version => {
  expect(startOn(version)).toMatchObject({ status: 0, stdout: 'started', stderr: '' })
})
