import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { ACTIONLINT, has } from '../support/tools.ts'

const fileOf = (name: string) => fileURLToPath(new URL(`../../docs/${name}`, import.meta.url))
const read = (name: string) => readFileSync(fileOf(name), 'utf8')
const PAGE = read('keys-as-code.md')

const blocksOf = (language: string) =>
  [...PAGE.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(
    ([, text = '']) => text,
  )

describe('docs/keys-as-code.md', () => {
  test('shows the files that the tests run', () => {
    expect(blocksOf('hcl')).toEqual([read('keys-as-code/main.tf')])
    expect(blocksOf('yaml').join('---\n')).toBe(read('keys-as-code/external-secrets.yaml'))
  })

  test('states the times of its workflow', () => {
    const workflow = read('keys-as-code/rotate-key.yml')
    const numberAt = (name: string) => Number(new RegExp(`${name}: (\\d+)$`, 'm').exec(workflow)?.[1])
    expect(PAGE).toContain(`until the key is ${numberAt('ROTATE_AFTER_DAYS')} days old`)
    expect(PAGE).toContain(`an overlap of ${numberAt('OVERLAP_SECONDS') / 86_400} days`)
    expect(PAGE).toContain(`the key ends ${numberAt('LIFETIME_DAYS')} days after its last rotation`)
  })

  test.skipIf(!has(ACTIONLINT))('has a workflow in which actionlint finds no mistake', () => {
    const args = ['-no-color', fileOf('keys-as-code/rotate-key.yml')]
    expect(execFileSync('actionlint', args, { encoding: 'utf8' })).toBe('')
  })
})
