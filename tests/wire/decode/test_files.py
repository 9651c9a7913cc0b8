"""Files that a user attaches."""

import pytest

from adkwire.errors import TooLarge, Unprocessable, UnsupportedType
from adkwire.wire.decode.decoder import InputLimits
from adkwire.wire.media import Media, dimensions, sniff
from tests.wire.decode.requests import PICTURES, Picture, decoded, parts_of, with_file
from tests.wire.pictures import data_url, gif, jpeg, png, webp_extended, webp_lossless, webp_lossy


class TestFiles:
    @pytest.mark.parametrize(("picture", "media_type"), PICTURES)
    def test_images_are_accepted(self, picture: Picture, media_type: str) -> None:
        data = picture(300, 200)

        assert dimensions(media_type, data) == (300, 200)
        assert parts_of(with_file(data_url(data, media_type), media_type)) == (Media(media_type, data),)

    @pytest.mark.parametrize("declared", [None, "", "image", "image/jpg", "image/JPEG"])
    def test_the_declared_type_may_be_loose(self, declared: str | None) -> None:
        assert parts_of(with_file(data_url(jpeg(1, 1), "image/jpg"), declared)) == (Media("image/jpeg", jpeg(1, 1)),)

    def test_parameters_of_the_type_are_allowed(self) -> None:
        url = data_url(png(1, 1)).replace(";base64", ";name=a.png;base64")

        assert parts_of(with_file(url, "image/png"))

    @pytest.mark.parametrize(
        "url",
        [
            "http://169.254.169.254/latest",
            "https://a.test/a.png",
            "gs://bucket/a.png",
            "file:///etc/passwd",
            "ftp://a.test/a.png",
            "blob:https://a.test/1",
            "//a.test/a.png",
            "javascript:alert(1)",
            "",
            "data:",
            "data:image/png",
            "data:;base64,AAAA",
            "data:image/png;base64",
            " data:image/png;base64,AAAA",
            "DATA:image/png;base64,AAAA",
            "data:image/png,plain",
            "data:image/png;base64,###",
            "data:image/png;base64,AAA",
            "data:image/png;base64,AA AA",
            "data:image/png;base64,ÄÄÄÄ",
            "data:image/png;base64,AAAA=AAA",
        ],
    )
    def test_only_complete_base64_data_urls_are_accepted(self, url: str) -> None:
        with pytest.raises(Unprocessable):
            decoded(with_file(url, "image/png"))

    @pytest.mark.parametrize(
        ("data", "in_url", "declared"),
        [
            (b"", "image/png", "image/png"),
            (b"not an image", "image/png", "image/png"),
            (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml", "image/svg+xml"),
            (b"%PDF-1.7", "application/pdf", "application/pdf"),
            (b"<script>", "text/html", "text/html"),
            (png(1, 1), "image/jpeg", "image/jpeg"),
            (png(1, 1), "image/png", "image/jpeg"),
            (png(1, 1), "image/jpeg", "image/png"),
            (png(1, 1), "image/png", "text/html"),
            (gif(1, 1), "image/gif", "image/svg+xml"),
        ],
    )
    def test_content_name_and_url_must_agree(self, data: bytes, in_url: str, declared: str) -> None:
        with pytest.raises(UnsupportedType) as refused:
            decoded(with_file(data_url(data, in_url), declared))
        assert refused.value.hint

    @pytest.mark.parametrize(("picture", "media_type"), PICTURES)
    def test_a_header_that_is_cut_short_is_refused_at_every_length(self, picture: Picture, media_type: str) -> None:
        whole = picture(300, 200)
        needed = next(n for n in range(len(whole) + 1) if dimensions(media_type, whole[:n]) == (300, 200))

        for length in range(needed):
            assert dimensions(media_type, whole[:length]) is None
            with pytest.raises(UnsupportedType):
                decoded(with_file(data_url(whole[:length], media_type), media_type))

    @pytest.mark.parametrize("size", [(0, 0), (0, 5), (5, 0)])
    @pytest.mark.parametrize(("picture", "media_type"), PICTURES[:4])
    def test_an_image_without_area_is_refused(self, picture: Picture, media_type: str, size: tuple[int, int]) -> None:
        with pytest.raises(UnsupportedType):
            decoded(with_file(data_url(picture(*size), media_type), media_type))

    @pytest.mark.parametrize(
        ("picture", "media_type", "side"),
        [
            (png, "image/png", 50_000),
            (gif, "image/gif", 50_000),
            (jpeg, "image/jpeg", 50_000),
            (webp_extended, "image/webp", 50_000),
            (webp_lossy, "image/webp", 16_000),
            (webp_lossless, "image/webp", 16_000),
        ],
    )
    def test_a_picture_that_would_unpack_to_gigabytes_is_refused(
        self, picture: Picture, media_type: str, side: int
    ) -> None:
        with pytest.raises(TooLarge, match=f"{side} x {side}"):
            decoded(with_file(data_url(picture(side, side), media_type), media_type))

    def test_the_limit_of_pixels_is_the_limit(self) -> None:
        assert decoded(with_file(data_url(png(4_000, 4_000))))
        with pytest.raises(TooLarge):
            decoded(with_file(data_url(png(4_000, 4_001))))

    def test_too_many_bytes(self) -> None:
        data = png(1, 1).ljust(101, b"\0")

        assert decoded(with_file(data_url(data)), InputLimits(20, 101, 100))
        for limit in (100, 98, 10):
            with pytest.raises(TooLarge):
                decoded(with_file(data_url(data)), InputLimits(20, limit, 100))

    def test_jpegs_of_other_kinds(self) -> None:
        padding = b"\xff\xff\xff"
        exif = b"\xff\xe1\x00\x08" + b"\xff\xc0\0\0\0\0"
        table = b"\xff\xc4\x00\x04\0\0"

        assert dimensions("image/jpeg", jpeg(30, 20, before=exif + table + padding, marker=0xC2)) == (30, 20)
        assert dimensions("image/jpeg", jpeg(30, 20, before=b"junk")) is None
        assert dimensions("image/jpeg", jpeg(30, 20, marker=0xC4)) is None
        assert dimensions("image/jpeg", b"\xff\xd8" + b"\xff\xe0\0\x02" * 100_000 + jpeg(3, 3)[2:]) is None

    def test_a_webp_of_no_known_kind(self) -> None:
        assert dimensions("image/webp", webp_lossy(3, 3).replace(b"VP8 ", b"VP9 ")) is None
        assert dimensions("image/webp", webp_lossy(3, 3).replace(b"\x9d\x01", b"\0\0")) is None
        assert dimensions("image/webp", webp_lossless(3, 3).replace(b"\x2f", b"\0")) is None

    def test_a_png_begins_with_its_header(self) -> None:
        assert dimensions("image/png", png(3, 3).replace(b"IHDR", b"IDAT")) is None

    def test_sniffing(self) -> None:
        assert [sniff(picture(1, 1)) for picture, _ in PICTURES] == [media_type for _, media_type in PICTURES]
        assert sniff(b"RIFF\0\0\0\0WAVE") is None
        assert sniff(b"GIF87a") == "image/gif"
