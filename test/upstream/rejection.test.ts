import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { readRejection } from '../../src/upstream/respond.ts'

const upstreamError = { code: 'quota_exceeded', error: 'The quota is used up' }
const defaultError = { code: 'upstream_rejected', error: 'The service rejected the request' }
const bytes = Buffer.from(JSON.stringify({ ...upstreamError, trace: 'at /srv/app.js' }))

test.each([
  [undefined, bytes],
  ['identity', bytes],
  ['gzip', gzipSync(bytes)],
  ['GZIP', gzipSync(bytes)],
  ['x-gzip', gzipSync(bytes)],
  ['deflate', deflateSync(bytes)],
  ['deflate, without the wrapper of zlib', deflateRawSync(bytes)],
  ['br', brotliCompressSync(bytes)],
  ['zstd', zstdCompressSync(bytes)],
  ['identity, as .NET writes it, with a byte order mark', Buffer.concat([Buffer.from('\ufeff'), bytes])],
])('only code and error pass from a body encoded as %s', (coding, body) => {
  expect(readRejection(body, coding?.split(',')[0])).toEqual(upstreamError)
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
])('a body %s is replaced by the default error', text => {
  expect(readRejection(Buffer.from(text), undefined)).toEqual(defaultError)
})

test.each([
  ['gzip', gzipSync],
  ['x-gzip', gzipSync],
  ['deflate', deflateSync],
  ['deflate', deflateRawSync],
  ['br', brotliCompressSync],
  ['zstd', zstdCompressSync],
])('a body encoded as %s that decodes to more than 16 KiB is replaced', (coding, encode) => {
  const padded = (length: number) => Buffer.from(JSON.stringify(upstreamError).padEnd(length))
  expect(readRejection(encode(padded(16 * 1024)), coding)).toEqual(upstreamError)
  expect(readRejection(encode(padded(16 * 1024 + 1)), coding)).toEqual(defaultError)
})

test('a decompression bomb, an invalid encoding and an unknown one are replaced by the default error', () => {
  expect(readRejection(gzipSync(Buffer.alloc(10_000_000, 0x20)), 'gzip')).toEqual(defaultError)
  expect(readRejection(bytes, 'gzip')).toEqual(defaultError)
  expect(readRejection(bytes, 'gzip, gzip')).toEqual(defaultError)
  expect(readRejection(null, undefined)).toEqual(defaultError)
})
