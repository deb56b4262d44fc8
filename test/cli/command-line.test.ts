import { PassThrough } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { runProgram } from '../../src/cli/program.ts'
import type { Host } from '../../src/run/host.ts'

/** Runs the program in this process, as far as it gets without serving anything. */
async function run(line: string) {
  const seen = { code: 0, output: '', errors: '' }
  const host: Host = {
    argv: line === '' ? [] : line.split(' '),
    nodeVersion: process.versions.node,
    environment: {},
    write: text => {
      seen.output += text
    },
    complain: text => {
      seen.errors += text
    },
    exit: code => {
      seen.code = code
    },
    atTerminal: false,
    // Of the streams only their events are of interest here.
    streams: { output: new PassThrough() } as unknown as Host['streams'],
    onSignal: () => {},
    onUncaughtException: () => {},
  }
  await runProgram(host)
  return seen
}

const COMMANDS = [
  'demo',
  'gateway',
  'console',
  'keys',
  ...['issue', 'list', 'rotate', 'revoke', 'sync'].map(name => `keys ${name}`),
  'audit',
  'audit verify',
  'config',
  'config check',
  'config print',
  'openapi',
]

describe('help and version work everywhere', () => {
  test.each(['', ...COMMANDS])('of postern %s', async command => {
    const at = (words: string) => `${command} ${words}`.trim()
    for (const line of [at('-h'), at('--help'), at('help'), `help ${command}`.trim()]) {
      const { code, output, errors } = await run(line)
      expect([code, output.split(' [')[0], errors], line).toEqual([0, `Usage: postern ${command}`.trim(), ''])
    }
    for (const line of [at('-V'), at('--version'), at('version')]) {
      const { code, output, errors } = await run(line)
      expect([code, output, errors], line).toEqual([0, expect.stringMatching(/^\d+\.\d+\.\d+\n$/), ''])
    }
  })

  test('also in the middle of the words', async () => {
    expect((await run('keys help issue')).output).toMatch(/^Usage: postern keys issue /)
    expect((await run('help gateway')).output).toContain('--upstream-url')
  })

  test('and a value that reads so is one', async () => {
    expect((await run('keys list --workspace help')).errors).toContain(
      'The address of the console is missing',
    )
  })
})

describe('a wrong command line exits 64', () => {
  test.each([
    '',
    'keys',
    'config',
    'bake',
    'bake --help',
    'help bake',
    'keys bake -h',
    'keys help bake',
    'gateway --upstream-ulr http://u',
    'console --nosuch',
    'gateway extra',
    'gateway --config',
    'config check nosuch',
    'config print extra',
    'keys list',
    'keys list --workspace ws_1 --nosuch',
    'keys rotate',
    'keys revoke nosuch',
  ])('postern %s', async line => {
    const { code, output, errors } = await run(line)
    expect([code, output]).toEqual([64, ''])
    expect(errors).not.toBe('')
  })

  test('a setting that is wrong is none: that is 78', async () => {
    expect((await run('config check --gateway-port eighty')).code).toBe(78)
  })
})
