package recording

import (
	"bytes"
	"image"
	"image/jpeg"
)

// The size and the quality of pictures that are kept. Text can be read at it.
const (
	pictureWidth, pictureHeight = 960, 600
	pictureQuality              = 45
	slack                       = 1.2 // a picture that is larger by no more stays as it is
)

// maxPixels bounds a picture that is decoded: a few bytes can say that they are a
// huge one, and a sandbox can have any program for a browser.
const maxPixels = 16 << 20

// fit makes a picture that others look at in large no larger than is kept. What
// it cannot read it leaves as it is.
func fit(picture []byte) []byte {
	head, err := jpeg.DecodeConfig(bytes.NewReader(picture))
	if err != nil {
		return picture
	}
	scale := min(pictureWidth/float64(head.Width), pictureHeight/float64(head.Height))
	if scale*slack >= 1 {
		return picture
	}
	src := read(picture)
	if src == nil {
		return picture
	}
	w, h := max(1, int(float64(head.Width)*scale)), max(1, int(float64(head.Height)*scale))
	dst := image.NewYCbCr(image.Rect(0, 0, w, h), image.YCbCrSubsampleRatio420)
	cw, ch := (w+1)/2, (h+1)/2
	from := chroma(src)
	average(plane{dst.Y, dst.YStride, w, h}, plane{src.Y, src.YStride, head.Width, head.Height})
	average(plane{dst.Cb, dst.CStride, cw, ch}, plane{src.Cb, src.CStride, from.X, from.Y})
	average(plane{dst.Cr, dst.CStride, cw, ch}, plane{src.Cr, src.CStride, from.X, from.Y})
	var out bytes.Buffer
	if err := jpeg.Encode(&out, dst, &jpeg.Options{Quality: pictureQuality}); err != nil {
		return picture
	}
	return out.Bytes()
}

// read decodes a picture of a browser; nil for what cannot be read, or is too large.
func read(picture []byte) *image.YCbCr {
	head, err := jpeg.DecodeConfig(bytes.NewReader(picture))
	if err != nil || head.Width*head.Height > maxPixels {
		return nil
	}
	whole, err := jpeg.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil
	}
	src, _ := whole.(*image.YCbCr) // as browsers write them
	return src
}

// chroma is the size of the colour planes of a picture.
func chroma(m *image.YCbCr) image.Point {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio420:
		return image.Pt((w+1)/2, (h+1)/2)
	case image.YCbCrSubsampleRatio422:
		return image.Pt((w+1)/2, h)
	case image.YCbCrSubsampleRatio440:
		return image.Pt(w, (h+1)/2)
	case image.YCbCrSubsampleRatio411:
		return image.Pt((w+3)/4, h)
	case image.YCbCrSubsampleRatio410:
		return image.Pt((w+3)/4, (h+1)/2)
	}
	return image.Pt(w, h)
}

// plane is one component of a picture.
type plane struct {
	pixels        []uint8
	stride        int
	width, height int
}

// average fills dst with src made smaller: each pixel is the mean of those that
// it covers.
func average(dst, src plane) {
	for y := range dst.height {
		y0 := y * src.height / dst.height
		y1 := max(y0+1, (y+1)*src.height/dst.height)
		for x := range dst.width {
			x0 := x * src.width / dst.width
			x1 := max(x0+1, (x+1)*src.width/dst.width)
			sum := 0
			for v := y0; v < y1; v++ {
				for _, p := range src.pixels[v*src.stride+x0 : v*src.stride+x1] {
					sum += int(p)
				}
			}
			dst.pixels[y*dst.stride+x] = uint8(sum / ((x1 - x0) * (y1 - y0)))
		}
	}
}

// How two pictures that may have come by different ways are held against each
// other: by means of few pixels, and how much these may differ.
const (
	sketchWidth = 240
	sketchNoise = 12
)

// alike reports whether two pictures show the same, whatever their size and quality
// are.
func alike(a, b []byte) bool {
	x, y := sketch(a), sketch(b)
	if x == nil || y == nil || x.Rect.Dy()-y.Rect.Dy() > 1 || y.Rect.Dy()-x.Rect.Dy() > 1 {
		return false
	}
	for i := range min(len(x.Pix), len(y.Pix)) {
		if d := int(x.Pix[i]) - int(y.Pix[i]); d > sketchNoise || d < -sketchNoise {
			return false
		}
	}
	return true
}

// sketch is the brightness of a picture, small; nil for what cannot be read.
func sketch(picture []byte) *image.Gray {
	src := read(picture)
	if src == nil || src.Rect.Empty() {
		return nil
	}
	w, h := src.Rect.Dx(), src.Rect.Dy()
	small := image.NewGray(image.Rect(0, 0, sketchWidth, max(1, sketchWidth*h/w)))
	average(plane{small.Pix, small.Stride, small.Rect.Dx(), small.Rect.Dy()}, plane{src.Y, src.YStride, w, h})
	return small
}
