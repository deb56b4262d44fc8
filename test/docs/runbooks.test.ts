import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { alerts } from '../observability/rule-files.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { has, JQ } from '../support/tools.ts'
import { shellBlocks } from './shell-blocks.ts'

const PAGE = 'helm/runbooks/alerts.md'
const text = readFileSync(new URL(`../../${PAGE}`, import.meta.url), 'utf8')
const sections = text
  .split(/^### /m)
  .slice(1)
  .map(section => [section.slice(0, section.indexOf('\n')), section.split(/^## /m)[0] ?? ''] as const)
const URGENCY: Readonly<Record<string, string>> = { critical: 'Critical', warning: 'Warning', info: 'Info' }

describe.each(sections)('the runbook of %s', (name, section) => {
  test('says what it means, how urgent it is, what to check first and what to do, in this order', () => {
    const parts = [...section.matchAll(/^\*\*(.+?)\.\*\*/gm)].map(([, heading]) => heading)
    expect(parts).toEqual(['What it means', 'How urgent', 'Check first', 'What to do'])
  })

  test('is as urgent as the alert', () => {
    const severities = alerts.filter(({ alert }) => alert === name).map(({ labels }) => labels['severity'])
    const urgency = /\*\*How urgent\.\*\* (.+)/.exec(section)?.[1] ?? ''
    expect(severities).not.toEqual([])
    for (const severity of severities) expect(urgency).toContain(URGENCY[severity ?? ''])
  })
})

describe('the commands of the runbooks', () => {
  test('have no placeholder for the reader to fill in', () => {
    const commands = [...text.matchAll(/^ *```sh\n([\s\S]*?)^ *```|`([^`\n]+)`/gm)].map(
      ([, block, code]) => block ?? code,
    )
    expect(commands.filter(command => /<[a-z][a-z ._-]*>|…|\.\.\./i.test(command ?? ''))).toEqual([])
  })

  test.skipIf(!has(JQ))('run as they are after the first block', () => {
    const { stderr, calls } = runWithStubs(shellBlocks(PAGE).map(block => block.text))
    expect(stderr).toBe('')
    expect(calls.filter(call => call.startsWith('kubectl')).length).toBeGreaterThan(50)
    expect(
      calls.filter(call => call.startsWith('kubectl') && !call.startsWith('kubectl -n postern ')),
    ).toEqual([])
    expect(calls.filter(call => call.includes('port-forward') && !call.includes(' pod/'))).toEqual([])
  })

  test.skipIf(!has(JQ))(
    'ask the two processes of one machine after the block for those without Kubernetes',
    () => {
      const [, withoutKubernetes = ''] = /^```bash\n([\s\S]*?)^```/m.exec(text) ?? []
      const [first] = shellBlocks(PAGE).map(block => block.text)
      const asked =
        'each gateway 9090/readyz; each console 9090/metrics; each console 8081/admin -i; logs gateway 10m'
      const { stderr, calls } = runWithStubs([first ?? '', withoutKubernetes, asked])
      expect(stderr).toContain('.config/postern/gateway.log')
      expect(calls).toEqual([
        'curl -s --max-time 8 http://127.0.0.1:9091/readyz',
        'curl -s --max-time 8 http://127.0.0.1:9090/metrics',
        'curl -s --max-time 8 -i http://127.0.0.1:8081/admin',
      ])
    },
  )

  test('fail this test if they use a variable or program that the page does not set', () => {
    expect(runWithStubs(['kubectl -n "$NAMESPACE" get pods']).stderr).toContain('NAMESPACE: unbound variable')
    expect(runWithStubs(['kubectI get pods']).stderr).toContain('command not found')
  })
})

/** Runs the blocks in one shell, with programs in place of those that need a cluster. */
function runWithStubs(blocks: readonly string[]): { stderr: string; calls: string[] } {
  const programs = temporaryDirectory()
  const log = join(programs, 'calls')
  const record = `#!/bin/sh\necho "$(basename "$0") $*" >> '${log}'\n`
  const pods = 'case "$*" in *"-o name") echo pod/postern-1; echo pod/postern-2 ;; esac\n'
  writeFileSync(join(programs, 'kubectl'), record + pods, { mode: 0o755 })
  for (const name of ['curl', 'redis-cli']) writeFileSync(join(programs, name), record, { mode: 0o755 })
  const { stderr } = spawnSync('bash', ['--norc', '-u', '-c', blocks.join('\n')], {
    encoding: 'utf8',
    env: { PATH: `${programs}:${process.env['PATH'] ?? ''}`, HOME: programs },
    timeout: 30_000,
  })
  return { stderr, calls: readFileSync(log, { encoding: 'utf8', flag: 'a+' }).trim().split('\n') }
}
