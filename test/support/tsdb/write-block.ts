import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32c, text, uint32, uint64, uvarint, varint } from './bytes.ts'
import { xorChunk } from './xor-chunk.ts'

/** As many samples as Prometheus puts into a chunk. */
const CHUNK_SAMPLES = 120
const XOR = 1

export type Labels = readonly (readonly [name: string, value: string])[]

export interface StoredSeries {
  readonly labels: Readonly<Record<string, string>>
  /** Index of its values in `patterns`. Series with the same values share their chunks. */
  readonly pattern: number
}

export interface BlockContent {
  readonly series: readonly StoredSeries[]
  /** Values of each pattern, one for each step. */
  readonly patterns: readonly (readonly number[])[]
  readonly fromMs: number
  readonly stepMs: number
}

interface ChunkMeta {
  readonly fromMs: number
  readonly toMs: number
  readonly ref: number
}

/**
 * Writes a block of Prometheus' storage: https://github.com/prometheus/prometheus/tree/main/tsdb/docs/format.
 * @param data the storage's directory
 * @param number of the block in this directory, from 1
 */
export function writeBlock(data: string, number: number, content: BlockContent): void {
  const { series, patterns, fromMs, stepMs } = content
  const ulid = String(number).padStart(26, '0')
  const directory = join(data, ulid)
  mkdirSync(join(directory, 'chunks'), { recursive: true })
  const { file, metas } = chunksOf(content)
  writeFileSync(join(directory, 'chunks/000001'), file)
  writeFileSync(join(directory, 'index'), indexOf(series, metas))
  const samples = patterns[0]?.length ?? 0
  const stats = {
    numSamples: samples * series.length,
    numSeries: series.length,
    numChunks: (metas[0]?.length ?? 0) * series.length,
  }
  const compaction = { level: 1, sources: [ulid] }
  const meta = { ulid, minTime: fromMs, maxTime: fromMs + samples * stepMs, stats, compaction, version: 1 }
  writeFileSync(join(directory, 'meta.json'), JSON.stringify(meta))
}

function chunksOf({ patterns, fromMs, stepMs }: BlockContent) {
  const parts = [Buffer.from([0x85, 0xbd, 0x40, 0xdd, 1, 0, 0, 0])]
  let ref = 8
  const metas = patterns.map(values =>
    Array.from({ length: Math.ceil(values.length / CHUNK_SAMPLES) }, (_, index): ChunkMeta => {
      const own = values.slice(index * CHUNK_SAMPLES, (index + 1) * CHUNK_SAMPLES)
      const startMs = fromMs + index * CHUNK_SAMPLES * stepMs
      const encoded = xorChunk(startMs, stepMs, own)
      const checked = Buffer.concat([Buffer.from([XOR]), encoded])
      const chunk = Buffer.concat([uvarint(encoded.length), checked, crc32c(checked)])
      const meta = { fromMs: startMs, toMs: startMs + (own.length - 1) * stepMs, ref }
      parts.push(chunk)
      ref += chunk.length
      return meta
    }),
  )
  return { file: Buffer.concat(parts), metas }
}

/** Appends sections and knows where they begin. */
class Sections {
  readonly #parts: Buffer[] = []
  length = 0

  append(bytes: Buffer): void {
    this.#parts.push(bytes)
    this.length += bytes.length
  }

  align(to: number): void {
    this.append(Buffer.alloc((to - (this.length % to)) % to))
  }

  /** Length, content and checksum. @returns where it begins */
  section(content: Buffer, lengthOf: (length: number) => Buffer = uint32): number {
    const at = this.length
    this.append(Buffer.concat([lengthOf(content.length), content, crc32c(content)]))
    return at
  }

  bytes(): Buffer {
    return Buffer.concat(this.#parts)
  }
}

function indexOf(series: readonly StoredSeries[], metas: readonly (readonly ChunkMeta[])[]): Buffer {
  const sorted = series
    .map(({ labels, pattern }) => ({ labels: sortedLabels(labels), pattern }))
    .sort((one, other) => compare(one.labels.flat(), other.labels.flat()))
  const symbols = [...new Set(sorted.flatMap(({ labels }) => labels.flat()))].sort(compareText)
  const symbolOf = new Map(symbols.map((symbol, index) => [symbol, index]))
  const file = new Sections()
  file.append(Buffer.from([0xba, 0xaa, 0xd7, 0x00, 2]))
  const symbolsAt = file.section(Buffer.concat([uint32(symbols.length), ...symbols.map(text)]))
  file.align(16)
  const seriesAt = file.length
  const chunkLists = metas.map(chunkListOf)
  const postings = new Map<string, { name: string; value: string; refs: number[] }>()
  for (const { labels, pattern } of sorted) {
    file.align(16)
    const numbers = labels.flat().map(symbol => uvarint(symbolOf.get(symbol) ?? 0))
    const chunks = chunkLists[pattern] ?? Buffer.alloc(0)
    const at = file.section(Buffer.concat([uvarint(labels.length), ...numbers, chunks]), uvarint)
    for (const [name, value] of [['', ''] as const, ...labels]) {
      const key = `${name}\0${value}`
      const known = postings.get(key) ?? { name, value, refs: [] }
      known.refs.push(at / 16)
      postings.set(key, known)
    }
  }
  file.align(4)
  const postingsAt = file.length
  const lists = [...postings.values()].sort((one, other) =>
    compare([one.name, one.value], [other.name, other.value]),
  )
  const table = lists.map(({ name, value, refs }) => {
    file.align(4)
    const at = file.section(Buffer.concat([uint32(refs.length), ...refs.map(uint32)]))
    return Buffer.concat([uvarint(2), text(name), text(value), uvarint(at)])
  })
  const tableAt = file.section(Buffer.concat([uint32(table.length), ...table]))
  // Label indices are no longer read.
  const contents = Buffer.concat([symbolsAt, seriesAt, 0, 0, postingsAt, tableAt].map(uint64))
  file.append(Buffer.concat([contents, crc32c(contents)]))
  return file.bytes()
}

function chunkListOf(metas: readonly ChunkMeta[]): Buffer {
  const parts = metas.map(({ fromMs, toMs, ref }, index) => {
    const before = metas[index - 1]
    if (before === undefined) return [varint(fromMs), uvarint(toMs - fromMs), uvarint(ref)]
    return [uvarint(fromMs - before.toMs), uvarint(toMs - fromMs), varint(ref - before.ref)]
  })
  return Buffer.concat([uvarint(metas.length), ...parts.flat()])
}

function sortedLabels(labels: Readonly<Record<string, string>>): Labels {
  return Object.entries(labels).sort(([one], [other]) => compareText(one, other))
}

function compare(one: readonly string[], other: readonly string[]): number {
  for (let index = 0; index < Math.min(one.length, other.length); index++) {
    const difference = compareText(one[index] ?? '', other[index] ?? '')
    if (difference !== 0) return difference
  }
  return one.length - other.length
}

/** By code unit, which is the order of bytes for ASCII. */
function compareText(one: string, other: string): number {
  return one < other ? -1 : Number(one > other)
}
