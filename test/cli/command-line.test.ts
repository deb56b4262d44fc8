import { PassThrough } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { runProgram } from '../../src/cli/program/program.ts'
import { settings } from '../../src/config/settings.ts'
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
    writeError: text => {
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
  ...[
    'issue',
    'list',
    'show',
    'find',
    'edit',
    'rotate',
    'suspend',
    'resume',
    'revoke',
    'revoke-all',
    'sync',
    'import',
  ].map(name => `keys ${name}`),
  'workspaces',
  'workspaces list',
  'refusals',
  'refusals list',
  'tokens',
  ...['issue', 'list', 'revoke'].map(name => `tokens ${name}`),
  'whoami',
  'context',
  ...['add', 'use', 'list', 'remove'].map(name => `context ${name}`),
  'audit',
  'audit list',
  'audit verify',
  'config',
  'config check',
  'config print',
  'doctor',
  'openapi',
  'completion',
]

describe('help and version work for every command', () => {
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

  test('also between the words of a command', async () => {
    expect((await run('keys help issue')).output).toMatch(/^Usage: postern keys issue /)
    expect((await run('help gateway')).output).toContain('--upstream-url')
  })

  test('the value of an option is no such word', async () => {
    expect((await run('keys list --workspace help')).errors).toContain(
      'The address of the console is missing',
    )
  })
})

describe('help is short', () => {
  test.each(['demo', 'gateway', 'console', 'config check', 'config print', 'doctor', 'openapi'])(
    '--help of %s lists what people use, and --help-all every setting with its default',
    async command => {
      const { output: short } = await run(`${command} --help`)
      expect(short.split('\n').length).toBeLessThan(35)
      expect(short).not.toContain('--upstream-queue-max-wait-ms')
      const { code, output } = await run(`${command} --help-all`)
      expect(code).toBe(0)
      for (const { flag, environment } of settings) {
        expect(output.replaceAll(/\s+/g, ' ')).toContain(`${flag} <value>`)
        expect(output).toContain(environment)
      }
      expect(output.replaceAll(/\s+/g, ' ')).toContain('(POSTERN_GATEWAY_PORT; default: 8080)')
    },
  )

  test('--help-all works for commands without settings, too', async () => {
    expect((await run('keys list --help-all')).output).toBe((await run('keys list --help')).output)
  })

  test('a similar name is suggested for an unknown command, flag or plane', async () => {
    expect((await run('gatway')).errors).toContain('(Did you mean gateway?)')
    expect((await run('gateway --upstream-ulr http://u')).errors).toContain('(Did you mean --upstream-url?)')
    expect((await run('config check gatway')).errors).toContain('(did you mean gateway?)')
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
    'completion powershell',
    'context add',
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

  test.each([
    ['workspaces plan ..', '<id>'],
    ['keys list --workspace ..', '--workspace'],
  ])('postern %s names %s, which is wrong', async (line, name) => {
    expect((await run(line)).errors).toContain(`${name} must be 1 to 128 characters`)
  })

  test('a wrong setting exits 78', async () => {
    expect((await run('config check --gateway-port eighty')).code).toBe(78)
  })
})
