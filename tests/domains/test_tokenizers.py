"""Tokenizers of other libraries, trained here: what their files say is what the transforms give.

They are defined where the libraries are installed (the extra `text`, which `test` brings).
"""

import importlib.util
import pathlib

import pytest

from facula.text import transforms

LINES = ["the little torch burns", "a little light in the dark", "the torch and the dark"]

if importlib.util.find_spec("tokenizers"):
    import tokenizers

    def test_tokens_of_a_file_are_the_librarys(tmp_path):
        made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="[UNK]"))
        made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        trainer = tokenizers.trainers.BpeTrainer(
            special_tokens=["[UNK]"], vocab_size=40, show_progress=False
        )
        made.train_from_iterator(LINES, trainer)
        made.save(str(tmp_path / "tokenizer.json"))
        tokens = transforms.TokenizerTransform(tmp_path / "tokenizer.json", return_tokens=True)
        numbers = transforms.TokenizerTransform(tmp_path / "tokenizer.json")
        for line in LINES:
            # merges join letters and lose none
            assert "".join(tokens(line)) == line.replace(" ", "")
            assert [made.id_to_token(i) for i in numbers(line)] == tokens(line)
        assert numbers(LINES) == [numbers(line) for line in LINES]
        assert tokens("the") == ["the"] and tokens("\u00e9") == ["[UNK]"]

    @pytest.mark.parametrize("content", [b"", b"{}", b'{"version": "1.0"', b"\x00\xff"])
    def test_a_broken_file_of_a_tokenizer_is_named(content, tmp_path):
        path = tmp_path / "tokenizer.json"
        path.write_bytes(content)
        with pytest.raises(
            RuntimeError, match=r"\[TokenizerTransform\] the file of a tokenizer"
        ) as caught:
            transforms.TokenizerTransform(path)
        assert str(path) in str(caught.value)


if importlib.util.find_spec("sentencepiece"):
    import sentencepiece

    def trained(folder: pathlib.Path) -> pathlib.Path:
        (folder / "lines.txt").write_text("\n".join(LINES * 20))
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "lines.txt"),
            model_prefix=str(folder / "pieces"),
            vocab_size=22,
            minloglevel=9,
        )
        return folder / "pieces.model"

    def test_pieces_of_a_model_join_to_the_line(tmp_path):
        pieces = transforms.SentencePieceTokenizer(trained(tmp_path))
        for line in LINES:
            assert "".join(pieces(line)).replace("\u2581", " ").strip() == line
        assert pieces(LINES) == [pieces(line) for line in LINES]

    def test_a_broken_model_of_pieces_is_named(tmp_path):
        path = trained(tmp_path)
        whole = path.read_bytes()
        for content in (b"", b"\xff" * 50, whole[: len(whole) // 2]):
            path.write_bytes(content)
            with pytest.raises(
                RuntimeError, match=r"\[SentencePieceTokenizer\] the model file"
            ) as caught:
                transforms.SentencePieceTokenizer(path)
            assert str(path) in str(caught.value)
        with pytest.raises(RuntimeError, match="no.model"):
            transforms.SentencePieceTokenizer(tmp_path / "no.model")
