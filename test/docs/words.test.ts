import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const FILES = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'SECURITY.md',
  'Dockerfile',
  'compose.yaml',
  '.ci/run',
  '.ci/**/*.ts',
  '.github/**/*.{yml,yaml,md}',
  'config/**/*.yaml',
  'docs/**/*.md',
  'helm/**/*.{md,json,yaml,tpl,txt,svg}',
  'src/**/*.{ts,cjs,js,css}',
  'test/**/*.{ts,mjs}',
]
  .flatMap(pattern => globSync(pattern, { cwd: ROOT }))
  // The list of words below names all of them.
  .filter(file => file !== 'test/docs/words.test.ts')

/** Words that this project does not use, each with what to write instead. */
const WORDS: readonly (readonly [word: string, instead: string])[] = [
  ['deaf', 'disconnected'],
  ['hear(?:s|d|ing)?', 'receive, connected'],
  ['beats?', 'heartbeat'],
  ['told', 'name the actor and the act, such as "the gateway publishes"'],
  ['whoever', 'name the actor: the client, the caller, the operator'],
  ['(?:any|every|no|some)body', 'name the actor: a client, all clients, no reader, another process'],
  ['(?:who|that) asks', 'the client, the caller, the current request'],
  ['whatever', 'name the cases, such as each status, every method, also if Redis fails'],
  ['what is kept', 'the cache, the cached response'],
  ['has gone', 'is closed, has expired, was removed'],
  ['is away', 'is down'],
  ['for want of', 'because … is missing'],
  ['look-ups?', 'lookup'],
  ['(?<!in )flight', 'lookup; requests are "in flight"'],
  ['origin (?:service|url|token)', 'key service'],
  ['judged', 'checked, validated'],
  ['turn(?:s|ed|ing)? away', 'reject, shed load'],
  ['spellings?', 'source of a setting; form or variant of a name'],
  ['(?:draws?|drew) (?:a|the)(?: same)? (?:hint|id|secret|token)', 'generate'],
  ['census', 'count of keys by state'],
  ['audit trails?', 'audit log'],
  ['complain(?:s|ed|ing)?', 'write error; a peer rejects'],
]

/** Words that stay in some files, because a stored or published format holds them. */
const EXCEPTIONS: readonly { word: string; files: RegExp; reason: string }[] = [
  {
    word: 'beats?',
    files:
      /key-service-openapi\.yaml|invalidation-message|bring-your-own-keys\.md|^test\/byo\/|hostile-redis\.test\.ts|stores\.full\.test\.ts|^src\/config\/settings\.ts$|^test\/config\/load-config\.test\.ts$/,
    reason: 'field of a heartbeat message, and name of a setting in the contract for key services',
  },
]

/** Splits identifiers: `lastToldMs` and `last_told_ms` both hold `told`. */
const inWords = (line: string) => line.replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2').replaceAll('_', ' ')

const patternOf = (word: string) => new RegExp(`(?<![\\w-])${word}(?![\\w-])`, 'i')

function findingsIn(file: string, text: string): string[] {
  const patterns = WORDS.filter(
    ([word]) => !EXCEPTIONS.some(exception => exception.word === word && exception.files.test(file)),
  ).map(([word, instead]) => ({ pattern: patternOf(word), instead }))
  return text.split('\n').flatMap((line, index) => {
    const words = inWords(line)
    return patterns
      .filter(({ pattern }) => pattern.test(words))
      .map(
        ({ pattern, instead }) => `${file}:${index + 1} says "${pattern.exec(words)?.[0]}": write ${instead}`,
      )
  })
}

const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')

test('code, pages and chart use the words of the glossary', () => {
  expect(FILES.length).toBeGreaterThan(300)
  expect(FILES.flatMap(file => findingsIn(file, read(file)))).toEqual([])
})

test.each([
  ['in a comment', '// Nobody listens'],
  ['in a name', 'this.#lastToldMs = nowMs'],
  ['in a label', 'keys_told_total'],
  ['beside an exception', 'in-flight flight'],
])('a word of the list is found %s', (_where, line) => {
  expect(findingsIn('a.ts', line)).toHaveLength(1)
})

test.each(EXCEPTIONS)('$word is still used: $reason', ({ word, files }) => {
  const isUsed = (file: string) => files.test(file) && patternOf(word).test(inWords(read(file)))
  expect(FILES.filter(isUsed)).not.toEqual([])
})
