import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { readRejection } from '../../src/upstream/rejection.ts'

const theirs = { code: 'quota_exceeded', error: 'The quota is used up' }
const ours = { code: 'upstream_rejected', error: 'The service rejected the request' }
const bytes = Buffer.from(JSON.stringify({ ...theirs, trace: 'at /srv/app.js' }))

test.each([
  [undefined, bytes],
  ['identity', bytes],
  ['gzip', gzipSync(bytes)],
  ['GZIP', gzipSync(bytes)],
  ['deflate', deflateSync(bytes)],
  ['br', brotliCompressSync(bytes)],
  ['zstd', zstdCompressSync(bytes)],
])('code and error pass, and nothing else, from a body coded %s', (coding, body) => {
  expect(readRejection(body, coding)).toEqual(theirs)
})

test.each([
  ['{"code":1,"error":"x"}'],
  ['{"code":"x"}'],
  ['{"code":"x","error":null}'],
  ['[]'],
  ['null'],
  ['"x"'],
  ['<html>'],
  [''],
])('a body %s is answered in our own words', text => {
  expect(readRejection(Buffer.from(text), undefined)).toEqual(ours)
})

test('a few bytes that unpack to many, a broken coding and an unknown one are answered in our own words', () => {
  expect(readRejection(gzipSync(Buffer.alloc(10_000_000, 0x20)), 'gzip')).toEqual(ours)
  expect(readRejection(bytes, 'gzip')).toEqual(ours)
  expect(readRejection(bytes, 'gzip, gzip')).toEqual(ours)
  expect(readRejection(null, undefined)).toEqual(ours)
})
