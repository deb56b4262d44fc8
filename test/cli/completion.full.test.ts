import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runPosternHere } from '../support/postern-here.ts'
import { PROGRAM, runPostern } from '../support/postern-process.ts'
import { FISH, has, ZSH } from '../support/tools.ts'

let directory: string
/** A directory with `postern` and one script for each shell. */
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'postern-test-'))
  const program = join(directory, 'postern')
  const words = [process.execPath, ...PROGRAM].map(word => `'${word}'`)
  writeFileSync(program, `#!/bin/sh\nexec ${words.join(' ')} "$@"\n`)
  chmodSync(program, 0o755)
  for (const shell of ['bash', 'zsh', 'fish']) {
    const run = shell === 'bash' ? runPostern : runPosternHere
    const { code, stdout } = await run(['completion', shell])
    expect(code).toBe(0)
    writeFileSync(join(directory, shell), `${stdout}\n`)
  }
})

afterAll(() => rmSync(directory, { recursive: true, force: true }))

const env = () => ({ PATH: `${directory}:${process.env['PATH']}`, HOME: directory })

/** What bash offers for the last of these words. */
function completeInBash(...words: string[]): string[] {
  const script = `
    source ${directory}/bash
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _postern
    printf '%s\\n' "\${COMPREPLY[@]}"`
  const output = execFileSync('bash', ['--noprofile', '--norc', '-c', script, 'bash', 'postern', ...words], {
    env: env(),
    encoding: 'utf8',
  })
  return output.split('\n').filter(line => line !== '')
}

describe('bash completes', () => {
  test('commands', () => {
    expect(completeInBash('')).toEqual([
      'demo',
      'gateway',
      'console',
      'keys',
      'workspaces',
      'refusals',
      'limits',
      'tokens',
      'webhooks',
      'whoami',
      'audit',
      'database',
      'proxy',
      'context',
      'config',
      'doctor',
      'openapi',
      'completion',
    ])
    expect(completeInBash('con')).toEqual(['console', 'context', 'config'])
    expect(completeInBash('keys', 're')).toEqual(['resume', 'revoke', 'revoke-all'])
  })

  test('options, those that help hides included', () => {
    expect(completeInBash('keys', 'issue', '--s')).toEqual(['--scope'])
    expect(completeInBash('refusals', 'list', '--co')).toEqual(['--code', '--context'])
    expect(completeInBash('refusals', 'list', '--f')).toEqual(['--from'])
    expect(completeInBash('audit', 'list', '--w')).toEqual(['--workspace'])
    for (const command of ['import', 'revoke-all', 'edit']) {
      expect(completeInBash('keys', command, '--dry')).toEqual(['--dry-run'])
    }
    expect(completeInBash('gateway', '--upstream-queue-max-w')).toEqual(['--upstream-queue-max-wait-ms'])
  })

  test('values from a list', () => {
    expect(completeInBash('keys', 'list', '-o', '')).toEqual(['table', 'wide', 'json', 'ndjson'])
    expect(completeInBash('completion', 'z')).toEqual(['zsh'])
  })

  test('the plane of a command', () => {
    expect(completeInBash('config', 'check', '')).toEqual(['gateway', 'console'])
    expect(completeInBash('doctor', 'ga')).toEqual(['gateway'])
  })

  test('files where the value is the user’s own', () => {
    expect(completeInBash('keys', 'list', '--token-file', '')).toEqual([])
    const registered = `source ${directory}/bash; complete -p postern`
    expect(execFileSync('bash', ['-c', registered], { env: env(), encoding: 'utf8' })).toContain('-o default')
  })
})

describe('the script loads without an error', () => {
  test.skipIf(!has(ZSH))('in zsh', () => {
    const script = `autoload -Uz compinit && compinit -u -D && source ${directory}/zsh && whence -w _postern`
    expect(execFileSync('zsh', ['-f', '-c', script], { env: env(), encoding: 'utf8' })).toContain('function')
  })

  test.skipIf(!has(FISH))('in fish, which offers files only where a value of the user’s own is due', () => {
    const complete = (line: string) => {
      const script = `source ${directory}/fish; complete -C '${line}'`
      const output = execFileSync('fish', ['-N', '-c', script], {
        env: env(),
        cwd: directory,
        encoding: 'utf8',
      })
      return output.split('\n').map(candidate => candidate.split('\t')[0])
    }
    // Its folder has files named after the shells.
    expect(complete('postern keys re')).toEqual(['resume', 'revoke', 'revoke-all', ''])
    expect(complete('postern ')).not.toContain('zsh')
    expect(complete('postern keys list --token-file z')).toContain('zsh')
  })
})

test('a program that prints descriptions separates them by a tab', async () => {
  expect((await runPostern(['__complete', 'ga'])).stdout).toBe(
    'gateway\trun the data plane, which verifies keys and forwards requests',
  )
})
