import { rmSync } from 'node:fs'
import { describe, expect, it, onTestFinished } from 'vitest'
import { BuiltImage, canConfine, copyOfContext } from '../../support/built-image.ts'
import { imageDifferences } from '../../support/image-differences.ts'
import { standInImages } from '../../support/stand-in-images.ts'
import { BUILDAH, DEBOOTSTRAP, has } from '../../support/tools.ts'

const REVISION = '0123456789abcdef'
/** Two builds, on a machine that may have to make the stand-ins for the base images first. */
const BUILDS_MS = 4_000_000

describe.skipIf(!(has(BUILDAH) && has(DEBOOTSTRAP) && canConfine()))(
  'the image (needs buildah, debootstrap, root and mount)',
  () => {
    it(
      'is the same bytes in two builds of one commit',
      async () => {
        standInImages()
        // Of one state, also while files of the checkout change, and with other times: two clones of one commit.
        const first = copyOfContext()
        const contexts = [first, copyOfContext(first)]
        const ids: string[] = []
        // One after the other: builds in one store share their intermediate images, which the first to end removes.
        for (const context of contexts) ids.push(await BuiltImage.build(REVISION, context))
        for (const context of contexts) rmSync(context, { recursive: true })
        const images = [...new Set(ids)].map(id => new BuiltImage(id))
        onTestFinished(() => {
          for (const image of images) image.remove()
        })
        const [one, other = one] = images
        if (one === undefined || other === undefined) throw new Error('No image was built')
        expect(imageDifferences(one, other)).toEqual([])
        expect(ids[1]).toBe(ids[0])
        expect(ids[0]).toMatch(/^sha256:[0-9a-f]{64}$/)
      },
      BUILDS_MS,
    )
  },
)
