import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { V8_FLAGS } from '../support/start-words.ts'

const CHECKOUT = new URL('../../', import.meta.url)

interface Instruction {
  readonly name: string
  readonly words: string
}

function textOf(file: string): string {
  return readFileSync(new URL(file, CHECKOUT), 'utf8')
}

/** Stages of the Dockerfile, each its instructions; what stands before the first is a stage of its own. */
const STAGES: readonly (readonly Instruction[])[] = stagesOf(textOf('Dockerfile'))

function stagesOf(text: string): Instruction[][] {
  const lines = text.replace(/\\\n/g, ' ').split('\n')
  const stages: Instruction[][] = [[]]
  for (const line of lines.filter(line => line.trim() !== '' && !line.startsWith('#'))) {
    const [name = '', ...words] = line.trim().split(/\s+/)
    if (name === 'FROM') stages.push([])
    stages.at(-1)?.push({ name, words: words.join(' ') })
  }
  return stages
}

const [args = [], build = [], image = []] = STAGES

function of(stage: readonly Instruction[], name: string): string[] {
  return stage.filter(instruction => instruction.name === name).map(({ words }) => words)
}

describe('the image', () => {
  it('is made in two stages, of Node 24 both, the second without a shell or a package manager', () => {
    expect(STAGES).toHaveLength(3)
    expect(of(args, 'ARG')).toEqual([
      expect.stringMatching(/^BUILD_IMAGE=node:24-/),
      expect.stringMatching(/^RUNTIME_IMAGE=\S+\/distroless\/nodejs24-\S+:nonroot$/),
    ])
    expect(of(build, 'FROM')).toEqual([`\${BUILD_IMAGE} AS build`])
    expect(of(image, 'FROM')).toEqual([`\${RUNTIME_IMAGE}`])
    expect(of(image, 'RUN')).toEqual([])
  })

  it('runs as the user that the chart names, never as root', () => {
    expect(of(image, 'USER')).toEqual(['65532:65532'])
  })

  it('starts the program itself, so that a signal reaches it, and takes the plane as its argument', () => {
    expect(of(image, 'ENTRYPOINT')).toEqual([
      `[${['/nodejs/bin/node', ...V8_FLAGS, '/app/dist/main.js'].map(word => `"${word}"`).join(', ')}]`,
    ])
    expect(of(image, 'CMD')).toEqual(['["--help"]'])
    expect(of(image, 'HEALTHCHECK')).toEqual(['NONE'])
  })

  it('holds what the lock file names for production, and a list of it', () => {
    const runs = of(build, 'RUN').join('\n')
    expect(runs).toMatch(
      /"npm", "ci"[\s\S]*"npm", "run", "build"[\s\S]*npm sbom .*--omit=dev[\s\S]*"npm", "prune", "--omit=dev"/,
    )
    expect(of(image, 'COPY').join('\n')).toContain('/build/sbom.cdx.json')
  })

  it('says what it is', () => {
    const labels = of(image, 'LABEL').join(' ')
    for (const name of ['title', 'description', 'licenses', 'version', 'revision']) {
      expect(labels).toMatch(new RegExp(`org\\.opencontainers\\.image\\.${name}="[^"]+"`))
    }
    const { version } = JSON.parse(textOf('package.json')) as { version: string }
    expect(of(image, 'ARG')).toContain(`VERSION=${version}`)
  })

  it('brings no secret along: none of its arguments or variables is one', () => {
    const names = [...of(build, 'ARG'), ...of(image, 'ARG'), ...of(image, 'ENV'), ...of(build, 'ENV')]
    expect(names.map(word => word.split('=')[0])).toEqual(['REVISION', 'VERSION', 'REVISION', 'NODE_ENV'])
  })

  it('opens the ports of the planes and of ops', () => {
    expect(of(image, 'EXPOSE')).toEqual(['8080 8081 8082 9090'])
  })
})

describe('the build', () => {
  const ignored = textOf('.dockerignore').split('\n')
  const allowed = ignored.filter(line => line.startsWith('!')).map(line => line.slice(1))
  const copied = [...build, ...image]
    .filter(({ name, words }) => name === 'COPY' && !words.startsWith('--from'))
    .flatMap(({ words }) => words.split(' ').slice(0, -1))

  it('copies files that are there, and that the ignore file lets through', () => {
    expect(copied.length).toBeGreaterThan(5)
    for (const file of copied) {
      expect(existsSync(new URL(file, CHECKOUT)), file).toBe(true)
      expect(allowed).toContain(file)
    }
  })

  it('sees nothing else of the checkout: no tests, no history, no databases, no environment files', () => {
    expect(ignored).toContain('*')
    expect(allowed.filter(file => !copied.includes(file))).toEqual([])
    expect(readdirSync(CHECKOUT)).toContain('test')
    expect(allowed).not.toContain('test')
  })
})
