import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ALL_DAY } from '../../src/run/ready-compiler.ts'
import { settleUnlessUsed, UNDER_LOAD } from '../../src/run/settle-heap.ts'

// An unknown flag is passed over with a warning, and the gateway would only be slower.
test.each([...UNDER_LOAD, ...ALL_DAY])('V8 knows %s', flag => {
  const known = execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' })
  const name = flag.replace(/^--(?:no-)?/, '').replace(/=.*/, '')
  expect(known).toMatch(new RegExp(`^\\s+--${name} `, 'm'))
})

// Forgotten, it is three to five times as dear for the rest of the process's life.
test('what Node does after each turn costs no more once the heap is settled', () => {
  const program = fileURLToPath(new URL('settled-ticks.ts', import.meta.url))
  const ratio = Number(execFileSync(process.execPath, [program], { encoding: 'utf8' }))
  expect(ratio).toBeLessThan(2)
})

describe('a process that listens', () => {
  let server: Server
  beforeEach(async () => {
    server = createServer((_, response) => response.end()).listen(0, '127.0.0.1')
    await once(server, 'listening')
  })
  afterEach(() => {
    server.close()
    server.closeAllConnections()
  })

  test('gives back what its start needed where nobody asks for anything', async () => {
    const { port } = server.address() as AddressInfo
    const settled = settleUnlessUsed([server])
    // Whoever only looks whether it listens is nobody.
    await once(connect(port, '127.0.0.1'), 'connect')
    expect(await settled).toBe(true)
  })

  test('lets nobody wait for it who asks at once', async () => {
    const { port } = server.address() as AddressInfo
    const settled = settleUnlessUsed([createServer(), server])
    await fetch(`http://127.0.0.1:${port}`)
    expect(await settled).toBe(false)
  })
})
